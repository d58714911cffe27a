"""The query parameter `force` of operations that remove something, as in Lakekeeper."""

from ..api_request import ApiRequest
from ..path_parameters import parse_boolean


def requested_force(request: ApiRequest) -> bool:
    """Raises BadRequest."""
    return parse_boolean(request.query.get("force") or "false", "force")


def force_option(force: bool) -> tuple[bool, ...]:
    """`force` among the options of a command. Without it there is none, so that a request keeps the hash of its Idempotency-Key."""
    return (True,) if force else ()
