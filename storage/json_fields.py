"""The JSON objects of profiles and credentials as pydantic models, and refusals that name a field and never what stands in it."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from domain.errors import BadRequest

FIELD_NAME_LENGTH_MAX = 200
FIELDS_MAX = 100
"""Of an object, before they are looked at one by one."""

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


def parsed(kinds: TypeAdapter[Value], json: object, what: str, rule: str) -> Value:
    """`json` as one of the models that `kinds` tells apart; null stands for a field that is not there.

    BadRequest names the first wrong field of `what`; `rule` is said where it is of no kind.
    """
    if not isinstance(json, dict):
        raise BadRequest(f"Invalid {what}: must be an object")
    if any(isinstance(each, dict) and len(each) > FIELDS_MAX for each in (json, *json.values())):
        raise BadRequest(f"Invalid {what}: more than {FIELDS_MAX} fields in one object")
    try:
        return kinds.validate_python({name: value for name, value in json.items() if value is not None})
    except ValidationError as refused:
        # Neither its text nor its input goes on: they may hold a secret.
        error = refused.errors(include_url=False, include_input=False)[0]
    if error["type"].startswith("union_tag"):
        raise BadRequest(f"Invalid {what}: {rule}")
    field = ".".join(map(str, error["loc"][1:]))[:FIELD_NAME_LENGTH_MAX]
    raise BadRequest(f"Invalid {what}: {field!r}: {error['msg'].removeprefix('Value error, ')}")
