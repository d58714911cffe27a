"""Pages of listings: `pageToken` and `pageSize`, and the opaque keyset tokens between pages."""

import base64
import binascii
import hashlib
from collections.abc import Mapping

import orjson

from ..domain.errors import BadRequest
from ..domain.identifiers import NAME_CODE_POINTS_MAX
from ..queries.results import PageRequest
from .limits import ApiLimits

_NAME_KEY_LENGTH_MAX = 3 * NAME_CODE_POINTS_MAX
"""Case folding turns some characters into three."""
_TOKEN_LENGTH_MAX = 5_000
"""Each code point takes four bytes, plus a digest, in base64."""
_LISTING_DIGEST_LENGTH = 16
_SIZE_DIGITS_MAX = 19


def listing_digest(*what: str) -> str:
    """A short hash of a listing (its kind, warehouse, parent), which binds a token to it."""
    return hashlib.sha256(orjson.dumps(what)).hexdigest()[:_LISTING_DIGEST_LENGTH]


def page_token(listing: str, after: str) -> str:
    """The token of the page that follows the name key `after` in `listing`."""
    return base64.urlsafe_b64encode(orjson.dumps([listing, after])).rstrip(b"=").decode()


def token_after(listing: str, token: str, what: str = "parameter 'pageToken'") -> str:
    """The name key in a token of `listing`. Raises BadRequest for any other token; `what` names it in the message."""
    if len(token) > _TOKEN_LENGTH_MAX:
        raise BadRequest(f"Invalid {what}: not a token of this catalog")
    try:
        decoded = orjson.loads(base64.b64decode(token.encode() + b"=" * (-len(token) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise BadRequest(f"Invalid {what}: not a token of this catalog") from None
    match decoded:
        case [str(issued_for), str(after)] if after and len(after) <= _NAME_KEY_LENGTH_MAX and "\0" not in after:
            if issued_for == listing:
                return after
            raise BadRequest(f"Invalid {what}: issued for another listing")
    raise BadRequest(f"Invalid {what}: not a token of this catalog")


def parse_size(text: str, limits: ApiLimits, name: str = "pageSize") -> int:
    """The size of a page, at most `page_size_max`."""
    if not (text.isascii() and text.isdigit() and len(text) <= _SIZE_DIGITS_MAX) or int(text) == 0:
        raise BadRequest(f"Invalid parameter '{name}': must be a positive whole number")
    return min(int(text), limits.page_size_max)


PAGE_PARAMETERS = ("pageToken", "pageSize")


def parse_page(
    query: Mapping[str, str], listing: str, limits: ApiLimits, names: tuple[str, str] = PAGE_PARAMETERS, *, size_alone: bool = False
) -> PageRequest:
    """The page that a client requests with the parameters of `names` for token and size.

    A client that sends `pageToken` (empty for the first page, as Java does) gets pages. Other clients get everything at once, even with a
    `pageSize`, because they would not request a second page (spec, PageToken). size_alone -- a size without a token requests pages too.
    """
    token, size = (query.get(name) for name in names)
    items = parse_size(size, limits, names[1]) if size else limits.page_size_default
    if token is None and not (size_alone and size):
        return PageRequest()
    return PageRequest(after=token_after(listing, token, f"parameter '{names[0]}'") if token else None, size=items)
