"""Describes values that pydantic refuses: what a value must be, never the value."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

_MUST = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be an array",
    "literal_error": "must be {expected}",
    "missing": "is required",
    "model_type": "must be an object",
    "path_type": "must be a path",
    "string_too_long": "must have at most {max_length} characters",
    "string_type": "must be text",
    "time_delta_parsing": "must be an ISO 8601 duration, such as PT24H",
    "time_delta_type": "must be an ISO 8601 duration, such as PT24H",
    "tuple_type": "must be an array",
}
"""What to say of an error by pydantic's type of it. Its context fills the braces."""

_NAME_LENGTH_MAX = 200


def nearest_name(name: str, known: Iterable[str], similarity_min: float = 0.6) -> str | None:
    """The known name that an unknown one resembles most. Reads no more than 200 characters, because the time grows with their square."""
    return next(iter(difflib.get_close_matches(name[:_NAME_LENGTH_MAX], known, n=1, cutoff=similarity_min)), None)


def value_must(error: Mapping[str, Any]) -> str:
    """What the invalid value must be; pydantic's own text for a type that is not in the table."""
    if error["type"] == "string_too_short":
        return "must not be empty" if error["ctx"]["min_length"] == 1 else f"must have at least {error['ctx']['min_length']} characters"
    rule = _MUST.get(error["type"])
    if rule is None:
        return str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    return rule.format_map(error.get("ctx", {}))
