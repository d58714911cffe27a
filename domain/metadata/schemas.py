"""Schemas of tables and views: parsing, comparing, indexing by id and name, and assigning fresh column ids."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import orjson

from ..errors import BadRequest, IllegalArgument, ValidationFailed
from .defaults import parse_default
from .fields import Json, get, get_bool, get_int, get_int_or_none, get_int_set, get_string, get_string_or_none, show
from .types import (
    MIN_FORMAT_VERSIONS,
    TYPE_DEPTH_MAX,
    TypeJson,
    describe_field,
    describe_type,
    invalid_type_error,
    is_primitive,
    parse_list,
    parse_map,
    parse_type_name,
    refuse_required_unknown,
    type_id,
)

INITIAL_SCHEMA_ID = 0
DEFAULT_VALUES_MIN_FORMAT_VERSION = 3

_COLUMNS_HASHED = 500

FULL_NAMES_CHARACTERS_MAX = 16 * 1024 * 1024
"""Limit on the full names of a schema's columns together. Each repeats the names of all its parents."""


def parse_schema(schema: object) -> Json:
    """The schema in canonical form. Raises IllegalArgument, BadRequest or ValidationFailed with Java's messages.

    The canonical form has the keys of the spec in Java's order. `schema-id` is always present (default 0), `identifier-field-ids` only if
    not empty, `doc` and defaults only if not null. Type names and default values are normalised.
    """
    type_ = _parse_type(schema, 0)
    if not isinstance(schema, dict) or isinstance(type_, str) or type_["type"] != "struct":
        raise IllegalArgument(f"Cannot create schema, not a struct type: {describe_type(type_)}")
    schema_id = get_int_or_none(schema, "schema-id") or 0
    identifier_ids = [] if schema.get("identifier-field-ids") is None else get_int_set(schema, "identifier-field-ids")
    parsed = make_schema(schema_id, type_["fields"], identifier_ids)
    index = SchemaIndex(parsed)
    for field_id in identifier_ids:
        _check_identifier_field(index, field_id)
    index.check_unique()
    return parsed


def make_schema(schema_id: int, fields: list[Json], identifier_ids: list[int]) -> Json:
    """A schema in canonical form, from canonical parts."""
    schema: Json = {"type": "struct", "schema-id": schema_id}
    if identifier_ids:
        schema["identifier-field-ids"] = identifier_ids
    schema["fields"] = fields
    return schema


def with_schema_id(schema: Json, schema_id: int) -> Json:
    """The canonical schema with another id."""
    return schema if schema["schema-id"] == schema_id else {**schema, "schema-id": schema_id}


def same_schema(a: Json, b: Json) -> bool:
    """Whether two canonical schemas have the same columns and identifier fields. Their ids do not matter (Java `Schema.sameSchema`)."""
    if set(a.get("identifier-field-ids", ())) != set(b.get("identifier-field-ids", ())) or a["fields"] != b["fields"]:
        return False
    # -0.0 and 0.0 are equal in Python, but different default values.
    return schema_key(a) == schema_key(b)


def schema_key(schema: Json) -> bytes:
    """A key that is equal exactly for schemas that `same_schema` considers the same."""
    fields, key = schema["fields"], hashlib.sha256(orjson.dumps(sorted(schema.get("identifier-field-ids", ()))))
    for start in range(0, len(fields), _COLUMNS_HASHED):
        # In groups, because one call of the encoder holds the GIL until it returns.
        key.update(orjson.dumps(fields[start : start + _COLUMNS_HASHED]))
    return key.digest()


def rough_schema_key(schema: Json) -> tuple[int, int]:
    """A cheap key that is equal for equal schemas, and rarely for others."""
    return len(schema.get("identifier-field-ids", ())), len(schema["fields"])


def _parse_type(value: object, depth: int) -> TypeJson:
    if depth > TYPE_DEPTH_MAX:
        raise BadRequest(f"Cannot parse type from json: nested deeper than {TYPE_DEPTH_MAX} levels")
    if isinstance(value, str):
        return parse_type_name(value)
    if isinstance(value, dict):
        if value.get("type") == "struct":
            return _parse_struct(value, depth)
        if value.get("type") == "list":
            return parse_list(value, lambda part: _parse_type(part, depth + 1))
        if value.get("type") == "map":
            return parse_map(value, lambda part: _parse_type(part, depth + 1))
    raise invalid_type_error(value)


def _parse_struct(node: Json, depth: int) -> Json:
    fields = get(node, "fields")
    if not isinstance(fields, list):
        raise BadRequest(f"Cannot parse struct fields from non-array: {show(fields)}")
    return {"type": "struct", "fields": [_parse_field(field, depth) for field in fields]}


def _parse_field(node: object, depth: int) -> Json:
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse struct field from non-object: {show(node)}")
    field_id = get_int(node, "id")
    name = get_string(node, "name")
    type_ = _parse_type(get(node, "type"), depth + 1)
    field: Json = {"id": field_id, "name": name, "required": False, "type": type_}
    # A null default means none. Java cannot parse it, but some clients write nulls.
    defaults = {key: parse_default(type_, node[key]) for key in ("initial-default", "write-default") if node.get(key) is not None}
    doc = get_string_or_none(node, "doc")
    field["required"] = get_bool(node, "required")
    refuse_required_unknown(name, type_, field["required"])
    if doc is not None:
        field["doc"] = doc
    return field | defaults


class SchemaIndex:
    """The fields of one canonical schema by id, with their full names and parents (Java `TypeUtil.index…`).

    fields  -- field id to field; list elements and map keys and values are fields with these names.
    names   -- field id to full name, `points.element.x`.
    ids     -- full name to field id, and short names such as `points.x` unless a full name is equal.
    parents -- field id to the id of the parent field; top-level columns have none.
    characters -- total length of all full names. Raises IllegalArgument beyond FULL_NAMES_CHARACTERS_MAX.
    """

    def __init__(self, schema: Json) -> None:
        self.fields: dict[int, Json] = {}
        self.names: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.ids: dict[str, int] = {}
        self.characters = 0
        self._short_ids: dict[str, int] = {}
        self._same_names: list[tuple[str, int, int]] = []
        self._same_ids: list[tuple[int, str, str]] = []
        self._visit_struct(schema, None, "", "")
        for name, field_id in self._short_ids.items():
            self.ids.setdefault(name, field_id)

    def check_unique(self) -> None:
        """Refuses a schema in which two fields have the same full name or id."""
        for name, first, second in self._same_names:
            raise ValidationFailed(f"Invalid schema: multiple fields for name {name}: {first} and {second}")
        for field_id, one, other in self._same_ids:
            raise IllegalArgument(f"Multiple entries with same key: {field_id}={one} and {field_id}={other}")

    def find_name(self, name: str) -> Json | None:
        """The field with this full or short name."""
        if not name:
            raise IllegalArgument("Invalid column name: (empty)")
        field_id = self.ids.get(name)
        return None if field_id is None else self.fields[field_id]

    def ancestors(self, field_id: int) -> list[Json]:
        """The parents of a field, innermost first."""
        found: list[Json] = []
        while (parent := self.parents.get(field_id)) is not None and len(found) <= TYPE_DEPTH_MAX:
            found.append(self.fields[parent])
            field_id = parent
        return found

    def highest_field_id(self) -> int:
        """The highest id in use; 0 if there are no fields."""
        return max(self.fields, default=0)

    def _visit_struct(self, struct: Json, parent: int | None, path: str, short_path: str) -> None:
        for field in struct["fields"]:
            self._visit(field, parent, path, short_path, field["name"], field["name"])

    def _visit(self, field: Json, parent: int | None, path: str, short_path: str, step: str, short_step: str | None) -> None:
        """Visits children before the field itself, so that messages name the same field first as in Java. The children are below `step`."""
        if parent is not None:
            self.parents[field["id"]] = parent
        inner_short = short_path if short_step is None else f"{short_path}{short_step}."
        self._visit_type(field["type"], field["id"], f"{path}{step}.", inner_short)
        self._add(field, f"{path}{field['name']}", f"{short_path}{field['name']}" if short_path else None)

    def _visit_type(self, type_: TypeJson, field_id: int, path: str, short_path: str) -> None:
        if isinstance(type_, str):
            return
        if type_["type"] == "struct":
            self._visit_struct(type_, field_id, path, short_path)
            return
        parts = nested_fields(type_)
        for part in parts:
            # Short names leave out the `element` or `value` of structs in lists and maps: `points.x` for `points.element.x`.
            stepped_over = part["name"] != "key" and type_id(part["type"]) == "struct"
            # Java looks up a map's value by its id, and finds the key if it has the same id.
            step = next(each["name"] for each in parts if each["id"] == part["id"])
            self._visit(part, field_id, path, short_path, step, None if stepped_over else step)

    def _add(self, field: Json, name: str, short_name: str | None) -> None:
        field_id = field["id"]
        self.characters += len(name)
        if self.characters > FULL_NAMES_CHARACTERS_MAX:
            raise IllegalArgument(f"Invalid schema: full names of columns are longer than {FULL_NAMES_CHARACTERS_MAX} characters together")
        if name in self.ids:
            self._same_names.append((name, self.ids[name], field_id))
        if field_id in self.names:
            self._same_ids.append((field_id, self.names[field_id], name))
        self.fields[field_id] = field
        self.names[field_id] = name
        self.ids[name] = field_id
        if short_name is not None:
            self._short_ids.setdefault(short_name, field_id)


def nested_fields(type_: Json) -> list[Json]:
    """The fields of a list or map, named `element`, or `key` and `value`."""
    if type_["type"] == "list":
        return [{"id": type_["element-id"], "name": "element", "required": type_["element-required"], "type": type_["element"]}]
    return [
        {"id": type_["key-id"], "name": "key", "required": True, "type": type_["key"]},
        {"id": type_["value-id"], "name": "value", "required": type_["value-required"], "type": type_["value"]},
    ]


def _check_identifier_field(index: SchemaIndex, field_id: int) -> None:
    field = index.fields.get(field_id)
    if field is None:
        raise IllegalArgument(f"Cannot add fieldId {field_id} as an identifier field: field does not exist")
    opening = f"Cannot add field {field['name']} as an identifier field:"
    if not is_primitive(field["type"]):
        raise IllegalArgument(f"{opening} not a primitive type field")
    if not field["required"]:
        raise IllegalArgument(f"{opening} not a required field")
    if field["type"] in ("float", "double"):
        raise IllegalArgument(f"{opening} must not be float or double field")
    for ancestor in reversed(index.ancestors(field_id)):
        if type_id(ancestor["type"]) != "struct":
            raise IllegalArgument(f"{opening} must not be nested in {describe_field(ancestor)}")
        if not ancestor["required"]:
            raise IllegalArgument(f"{opening} must not be nested in an optional field {describe_field(ancestor)}")


def check_compatibility(index: SchemaIndex, format_version: int) -> None:
    """Refuses types and default values of a later format version (table spec, appendix E)."""
    problems: dict[int, str] = {}
    for field_id, field in index.fields.items():
        since = MIN_FORMAT_VERSIONS.get(type_id(field["type"]), 1)
        name = index.names[field_id]
        if format_version < since:
            problems[field_id] = f"Invalid type for {name}: {describe_type(field['type'])} is not supported until v{since}"
        if "initial-default" in field and format_version < DEFAULT_VALUES_MIN_FORMAT_VERSION:
            problems[field_id] = (
                f"Invalid initial default for {name}: non-null default ({_plain(field['initial-default'])}) "
                f"is not supported until v{DEFAULT_VALUES_MIN_FORMAT_VERSION}"
            )
    if problems:
        listed = "\n- ".join(problems[field_id] for field_id in sorted(problems))
        raise IllegalArgument(f"Invalid schema for v{format_version}:\n- {listed}")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def assign_fresh_ids(schema: Json, schema_id: int, next_id: Callable[[], int]) -> Json:
    """The schema with all column ids taken from `next_id`, level by level (Java `TypeUtil.assignFreshIds`).

    Identifier fields are matched by name.
    """
    fields = _fresh_struct(schema, next_id)["fields"]
    fresh = make_schema(schema_id, fields, [])
    if "identifier-field-ids" not in schema:
        return fresh
    names, ids = SchemaIndex(schema).names, SchemaIndex(fresh).ids
    return make_schema(schema_id, fields, [ids[names[field_id]] for field_id in schema["identifier-field-ids"]])


def _fresh_struct(struct: Json, next_id: Callable[[], int]) -> Json:
    ids = [next_id() for _ in struct["fields"]]
    fields = [
        {**field, "id": new_id, "type": _fresh_type(field["type"], next_id)} for field, new_id in zip(struct["fields"], ids, strict=True)
    ]
    return {"type": "struct", "fields": fields}


def _fresh_type(type_: TypeJson, next_id: Callable[[], int]) -> TypeJson:
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return _fresh_struct(type_, next_id)
    if type_["type"] == "list":
        return {**type_, "element-id": next_id(), "element": _fresh_type(type_["element"], next_id)}
    key_id, value_id = next_id(), next_id()
    key = _fresh_type(type_["key"], next_id)
    return {**type_, "key-id": key_id, "key": key, "value-id": value_id, "value": _fresh_type(type_["value"], next_id)}


def describe_schema(schema: Json) -> str:
    """The schema in the format of Java's messages, one column per line."""
    identifiers = set(schema.get("identifier-field-ids", ()))
    lines = [f"  {describe_field(field)}{' (id)' if field['id'] in identifiers else ''}" for field in schema["fields"]]
    return "table {\n" + "\n".join(lines) + "\n}"
