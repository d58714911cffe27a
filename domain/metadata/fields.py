"""Reads fields of JSON objects and checks their types. Error messages are those of Java's `JsonUtil`."""

import json
import re
from typing import Any

from ..errors import BadRequest, IllegalArgument

Json = dict[str, Any]

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

SHOWN_CHARACTERS_MAX = 1_024
"""How much of an invalid value an error message contains."""


_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def show(value: object) -> str:
    """`value` as compact JSON for an error message, cut at SHOWN_CHARACTERS_MAX."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        text = f"({type(value).__name__})"
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"


def is_int(value: object) -> bool:
    """Whether it is a JSON integer of 32 bits (`True` is not)."""
    return type(value) is int and INT_MIN <= value <= INT_MAX


def is_long(value: object) -> bool:
    """Whether it is a JSON integer of 64 bits."""
    return type(value) is int and LONG_MIN <= value <= LONG_MAX


def get(node: Json, name: str) -> Any:
    """The field `name`, which must exist and not be null."""
    value = node.get(name)
    if value is None:
        raise BadRequest(f"Cannot parse missing field: {name}")
    return value


def get_int(node: Json, name: str) -> int:
    """The 32-bit integer in field `name`."""
    if name not in node:
        raise BadRequest(f"Cannot parse missing int: {name}")
    value: int = node[name]
    if not is_int(value):
        raise BadRequest(f"Cannot parse to an integer value: {name}: {show(value)}")
    return value


def get_int_or_none(node: Json, name: str) -> int | None:
    """The 32-bit integer in field `name`, or None if it is missing or null."""
    return None if node.get(name) is None else get_int(node, name)


def get_long(node: Json, name: str) -> int:
    """The 64-bit integer in field `name`."""
    if name not in node:
        raise BadRequest(f"Cannot parse missing long: {name}")
    value: int = node[name]
    if not is_long(value):
        raise BadRequest(f"Cannot parse to a long value: {name}: {show(value)}")
    return value


def get_long_or_none(node: Json, name: str) -> int | None:
    """The 64-bit integer in field `name`, or None if it is missing or null."""
    return None if node.get(name) is None else get_long(node, name)


def get_bool(node: Json, name: str) -> bool:
    """The boolean in field `name`."""
    if name not in node:
        raise BadRequest(f"Cannot parse missing boolean: {name}")
    value = node[name]
    if not isinstance(value, bool):
        raise BadRequest(f"Cannot parse to a boolean value: {name}: {show(value)}")
    return value


def get_string(node: Json, name: str) -> str:
    """The string in field `name`."""
    if name not in node:
        raise BadRequest(f"Cannot parse missing string: {name}")
    value = node[name]
    if not isinstance(value, str):
        raise BadRequest(f"Cannot parse to a string value: {name}: {show(value)}")
    return value


def get_string_or_none(node: Json, name: str) -> str | None:
    """The string in field `name`, or None if it is missing or null."""
    return None if node.get(name) is None else get_string(node, name)


def get_string_map(node: Json, name: str) -> dict[str, str]:
    """The object of strings in field `name`."""
    if name not in node:
        raise BadRequest(f"Cannot parse missing map: {name}")
    value = node[name]
    if not isinstance(value, dict):
        raise BadRequest(f"Cannot parse string map from non-object value: {name}: {show(value)}")
    return {key: get_string(value, key) for key in value}


def _get_array(node: Json, name: str, what: str) -> list[Any]:
    if name not in node:
        raise BadRequest(f"Cannot parse missing {what}: {name}")
    value = node[name]
    if not isinstance(value, list):
        raise BadRequest(f"Cannot parse JSON array from non-array value: {name}: {show(value)}")
    return value


def get_int_set(node: Json, name: str) -> list[int]:
    """The 32-bit integers in array `name`, each once, in their order."""
    values = _get_array(node, name, "set")
    for value in values:
        if not is_int(value):
            raise BadRequest(f"Cannot parse integer from non-int value in {name}: {show(value)}")
    return list(dict.fromkeys(values))


def get_int_list(node: Json, name: str) -> list[int]:
    """The 32-bit integers in array `name`."""
    values = _get_array(node, name, "list")
    for value in values:
        if not is_int(value):
            raise BadRequest(f"Cannot parse integer from non-int value in {name}: {show(value)}")
    return values


def get_long_set(node: Json, name: str) -> list[int]:
    """The 64-bit integers in array `name`, each once, in their order."""
    values = _get_array(node, name, "set")
    for value in values:
        if not is_long(value):
            raise BadRequest(f"Cannot parse long from non-long value in {name}: {show(value)}")
    return list(dict.fromkeys(values))


def get_string_set(node: Json, name: str) -> list[str]:
    """The strings in array `name`, each once, in their order."""
    values = _get_array(node, name, "set")
    for value in values:
        if not isinstance(value, str):
            raise BadRequest(f"Cannot parse string from non-text value in {name}: {show(value)}")
    return list(dict.fromkeys(values))


def get_objects(node: Json, name: str) -> list[Json]:
    """The objects in array `name`."""
    values = _get_array(node, name, "list")
    for value in values:
        if not isinstance(value, dict):
            raise BadRequest(f"Cannot parse object from non-object value: {show(value)}")
    return values


def check_uuid(text: str) -> None:
    """Refuses a UUID that is not in the spec's form: 36 characters in five groups."""
    if not _UUID.fullmatch(text):
        raise IllegalArgument(f"Invalid UUID string: {show(text)}")


def next_id(id_key: str, last: int) -> int:
    """The id after `last`. Raises IllegalArgument if it would exceed 32 bits."""
    if last >= INT_MAX:
        raise IllegalArgument(f"Cannot assign a {id_key} above {INT_MAX}")
    return last + 1
