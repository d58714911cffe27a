"""Iceberg types as JSON: a string for a primitive type, an object for struct, list and map."""

import re
from typing import Any

from ..errors import BadRequest, IllegalArgument
from .fields import INT_MAX, Json, get, get_bool, get_int, show

TypeJson = str | Json

PLAIN_TYPES = frozenset(
    (
        *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"),
        *("string", "uuid", "binary", "unknown", "variant", "geometry", "geography"),
    )
)
MIN_FORMAT_VERSIONS = {"timestamp_ns": 3, "timestamptz_ns": 3, "variant": 3, "unknown": 3, "geometry": 3, "geography": 3}
"""The first format version that has the type."""

DECIMAL_PRECISION_MAX = 38
TYPE_DEPTH_MAX = 100
"""Limit on nested structs, lists and maps, so that they cannot exhaust the stack."""

_DEFAULT_CRS = "OGC:CRS84"
_WHITESPACE = " \t\n\v\f\r"
_EDGE_ALGORITHMS = frozenset(("spherical", "vincenty", "thomas", "andoyer", "karney"))
_WORD = re.compile(r"\w*", re.ASCII)
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]", re.ASCII)
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)", re.ASCII)


def parse_type_name(text: str) -> str:
    """The canonical name of a primitive type or variant: `DECIMAL(9,2)` becomes `decimal(9, 2)`."""
    lowered = text.lower()
    if lowered in PLAIN_TYPES:
        return lowered
    if lowered.startswith(("geometry", "geography")):
        return _parse_geo_type(text)
    if match := _FIXED.fullmatch(lowered):
        return f"fixed[{_number(match.group(1))}]"
    if match := _DECIMAL.fullmatch(lowered):
        precision, scale = _number(match.group(1)), _number(match.group(2))
        if precision > DECIMAL_PRECISION_MAX:
            raise IllegalArgument(f"Decimals with precision larger than 38 are not supported: {precision}")
        return f"decimal({precision}, {scale})"
    raise IllegalArgument(f"Cannot parse type string to primitive: {text}")


def _number(digits: str) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(INT_MAX)) or int(significant) > INT_MAX:
        raise IllegalArgument(f'For input string: "{digits}"')
    return int(significant)


def _parse_geo_type(text: str) -> str:
    """Parses `geometry(<crs>)` or `geography(<crs>, <edge algorithm>)`. The parameters are optional, and omitted if they are the
    defaults.
    """
    word = "geometry" if text.lower().startswith("geometry") else "geography"
    rest = text[len(word) :].lstrip(_WHITESPACE)
    if not rest:
        return word
    crs, comma, algorithm = rest[1:-1].partition("," if word == "geography" else ")")
    crs, algorithm = crs.strip(_WHITESPACE), algorithm.strip(_WHITESPACE)
    is_well_formed = word == "geography" or not comma
    if not (rest.startswith("(") and rest.endswith(")") and is_well_formed and _WORD.fullmatch(algorithm)):
        raise IllegalArgument(f"Cannot parse type string to primitive: {text}")
    if comma and algorithm.lower() not in _EDGE_ALGORITHMS:
        raise IllegalArgument(f"Invalid edge interpolation algorithm: {algorithm}")
    if not crs:
        raise IllegalArgument("Invalid CRS: (empty string)")
    is_default_crs = crs.upper() == _DEFAULT_CRS
    if comma:
        return f"geography({_DEFAULT_CRS if is_default_crs else crs}, {algorithm.lower()})"
    return word if is_default_crs else f"{word}({crs})"


def parse_list(node: Json, parse_element: Any) -> Json:
    """Parses a list type. `parse_element` parses the type of its elements."""
    element_id = get_int(node, "element-id")
    element = parse_element(get(node, "element"))
    required = get_bool(node, "element-required")
    refuse_required_unknown("element", element, required)
    return {"type": "list", "element-id": element_id, "element": element, "element-required": required}


def parse_map(node: Json, parse_part: Any) -> Json:
    """Parses a map type. `parse_part` parses the types of key and value."""
    key_id = get_int(node, "key-id")
    key = parse_part(get(node, "key"))
    value_id = get_int(node, "value-id")
    value = parse_part(get(node, "value"))
    required = get_bool(node, "value-required")
    refuse_required_unknown("key", key, True)
    refuse_required_unknown("value", value, required)
    return {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": required}


def refuse_required_unknown(name: str, type_: TypeJson, required: bool) -> None:
    """Refuses a required field of type `unknown`, because such a field contains only nulls."""
    if required and type_ == "unknown":
        raise IllegalArgument(f"Cannot create required field with unknown type: {name}")


def invalid_type_error(value: object) -> BadRequest:
    """The error for a JSON value that is not a type."""
    return BadRequest(f"Cannot parse type from json: {show(value)}")


def is_primitive(type_: TypeJson) -> bool:
    """Whether the type is neither nested nor variant."""
    return isinstance(type_, str) and type_ != "variant"


def type_id(type_: TypeJson) -> str:
    """The type without parameters: `decimal`, `fixed`, `geometry`, `struct`, …"""
    if isinstance(type_, str):
        return type_.partition("(")[0].partition("[")[0]
    name: str = type_["type"]
    return name


def describe_type(type_: TypeJson) -> str:
    """The type in the format of Java's messages: `struct<1: a: optional int>`, `list<int>`, `map<string, int>`."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return f"struct<{', '.join(describe_field(field) for field in type_['fields'])}>"
    if type_["type"] == "list":
        return f"list<{describe_type(type_['element'])}>"
    return f"map<{describe_type(type_['key'])}, {describe_type(type_['value'])}>"


def describe_field(field: Json) -> str:
    """The field in the format of Java's messages: `1: id: required long (the key)`."""
    need = "required" if field["required"] else "optional"
    doc = f" ({field['doc']})" if "doc" in field else ""
    return f"{field['id']}: {field['name']}: {need} {describe_type(field['type'])}{doc}"
