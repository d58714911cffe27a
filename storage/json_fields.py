"""JSON objects of profiles and credentials as pydantic models. Errors name a field and never its value."""

import difflib
import functools
import re
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..domain.errors import BadRequest
from ..domain.invalid_values import value_must

FIELD_NAME_LENGTH_MAX = 200
JSON_BYTES_MAX = 64 * 1024
"""Limit on one object as JSON."""

Text = Annotated[str, Field(min_length=1)]
Value = TypeVar("Value")


class JsonFields(BaseModel):
    """A JSON object whose names are in kebab case; unknown fields are refused."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", "-"), extra="forbid", frozen=True, hide_input_in_errors=True, strict=True
    )

    def to_json(self) -> dict[str, Any]:
        """Every field that has a value, including defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def matching(pattern: str, rule: str) -> AfterValidator:
    """A text that the whole pattern matches. rule -- what the error says."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(rule)
        return text

    return AfterValidator(check)


def refuse_long(json: dict[str, Any], what: str) -> None:
    """Raises BadRequest over JSON_BYTES_MAX."""
    if len(orjson.dumps(json)) > JSON_BYTES_MAX:
        raise BadRequest(f"Invalid {what}: longer than {JSON_BYTES_MAX} bytes")


def parsed(kinds: TypeAdapter[Value], json: object, what: str, rule: str) -> Value:
    """Parses `json` as one of the models of `kinds`; null counts as an absent field.

    Raises BadRequest, which names one invalid field of `what`, or has `rule` if it is none of the models.
    """
    if not isinstance(json, dict):
        raise BadRequest(f"Invalid {what}: must be an object")
    # Before any field is checked: an error, or a pattern applied to a long text, may take a thousand times its bytes.
    refuse_long(json, what)
    try:
        return kinds.validate_python({name: value for name, value in json.items() if value is not None})
    except ValidationError as refused:
        # Without the error's text and input, which may contain a secret.
        errors = refused.errors(include_url=False, include_input=False)
    # An unknown field first: it may be a misspelling of one that is missing.
    error = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    if error["type"].startswith("union_tag"):
        raise BadRequest(f"Invalid {what}: {rule}")
    field = ".".join(map(str, error["loc"][1:]))[:FIELD_NAME_LENGTH_MAX]
    unknown = error["type"] == "extra_forbidden"
    reason = f"no such field{_nearest(kinds, error['loc'])}" if unknown else value_must(error)
    raise BadRequest(f"Invalid {what}: {field!r}: {reason}")


def _nearest(kinds: TypeAdapter[Value], loc: tuple[int | str, ...]) -> str:
    """The known field that an unknown one resembles; nothing if none does, or if it is inside a nested object."""
    kind, *within = loc
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
