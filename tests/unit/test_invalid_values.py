"""Messages about values that pydantic refuses are plain English and do not show the value."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from icecore.domain.invalid_values import value_must


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (int, "secret", "must be a whole number"),
        (int, 1.5, "must be a whole number"),
        (float, "secret", "must be a number"),
        (bool, "secret", "must be true or false"),
        (str, 1, "must be text"),
        (dict[str, str], 1, "must be an object"),
        (list[str], 1, "must be an array"),
        (tuple[str, ...], 1, "must be an array"),
        (timedelta, "24h", "must be an ISO 8601 duration, such as PT24H"),
        (Annotated[timedelta, Field(gt=timedelta(0))], "PT0S", "must be more than 0 seconds"),
        (Literal["info", "error"], "secret", "must be 'info' or 'error'"),
        (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
        (Annotated[int, Field(gt=1)], 0, "must be more than 1"),
        (Annotated[int, Field(le=1)], 2, "must be at most 1"),
        (Annotated[int, Field(lt=1)], 2, "must be less than 1"),
        (Annotated[str, Field(min_length=1)], "", "must not be empty"),
        (Annotated[str, Field(min_length=3)], "x", "must have at least 3 characters"),
        (Annotated[str, Field(max_length=3)], "secret", "must have at most 3 characters"),
    ],
)
def test_what_a_value_must_be(kind: Any, value: object, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value)
    [error] = refused.value.errors(include_url=False, include_input=False)
    assert said == value_must(error)
