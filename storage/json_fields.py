"""JSON objects of profiles and credentials as pydantic models. Errors name a field and never its value."""

import difflib
import functools
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..domain.errors import BadRequest

FIELD_NAME_LENGTH_MAX = 200
JSON_BYTES_MAX = 64 * 1024
"""Of one object as JSON."""

Text = Annotated[str, Field(min_length=1)]
Value = TypeVar("Value")


class JsonFields(BaseModel):
    """One JSON object, whose names are in kebab case; what is unknown is refused."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", "-"), extra="forbid", frozen=True, hide_input_in_errors=True, strict=True
    )

    def to_json(self) -> dict[str, Any]:
        """Every field that has a value, defaults filled in."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def refuse_long(json: dict[str, Any], what: str) -> None:
    """BadRequest over JSON_BYTES_MAX."""
    if len(orjson.dumps(json)) > JSON_BYTES_MAX:
        raise BadRequest(f"Invalid {what}: longer than {JSON_BYTES_MAX} bytes")


def parsed(kinds: TypeAdapter[Value], json: object, what: str, rule: str) -> Value:
    """`json` as one of the models that `kinds` tells apart; null stands for a field that is not there.

    BadRequest names one wrong field of `what`; `rule` is said where it is of no kind.
    """
    if not isinstance(json, dict):
        raise BadRequest(f"Invalid {what}: must be an object")
    # Before any field is looked at: a wrong value, or a pattern that goes through a long text, may take a thousand times its bytes.
    refuse_long(json, what)
    try:
        return kinds.validate_python({name: value for name, value in json.items() if value is not None})
    except ValidationError as refused:
        # Neither its text nor its input goes on: they may hold a secret.
        errors = refused.errors(include_url=False, include_input=False)
    # A field that is not known first: it may be the misspelt one of another that lacks.
    error = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    if error["type"].startswith("union_tag"):
        raise BadRequest(f"Invalid {what}: {rule}")
    field = ".".join(map(str, error["loc"][1:]))[:FIELD_NAME_LENGTH_MAX]
    unknown = error["type"] == "extra_forbidden"
    said = f"no such field{_nearest(kinds, error['loc'])}" if unknown else error["msg"].removeprefix("Value error, ")
    raise BadRequest(f"Invalid {what}: {field!r}: {said}")


def _nearest(kinds: TypeAdapter[Value], place: tuple[int | str, ...]) -> str:
    """The known field that an unknown one resembles; nothing where none does, or where it lies in a field that is an object."""
    kind, *within = place
    if len(within) != 1:
        return ""
    known = _fields(kinds).get(str(kind).partition("/")[0], ())
    near = difflib.get_close_matches(str(within[0])[:FIELD_NAME_LENGTH_MAX], known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


@functools.cache
def _fields(kinds: TypeAdapter[Value]) -> dict[str, list[str]]:
    """The names of the fields by the `type` of an object."""
    found: dict[str, list[str]] = {}
    for model in kinds.json_schema()["$defs"].values():
        kind = model["properties"].get("type", {})
        for each in kind.get("enum", [kind.get("const", "")]):
            found.setdefault(each, []).extend(model["properties"])
    return found
