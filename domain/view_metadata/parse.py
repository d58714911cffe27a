"""Parses view metadata and view versions to the canonical form (Java `ViewMetadataParser`, `ViewVersionParser`)."""

from collections import Counter

from ..errors import BadRequest, IllegalArgument
from ..metadata.fields import Json, check_uuid, get, get_int, get_long, get_string, get_string_map, get_string_or_none, show
from ..metadata.schemas import parse_schema

VIEW_FORMAT_VERSION = 1


def parse_view_metadata(document: object) -> Json:
    """Parses a view metadata file to a canonical document. Members that the view spec does not define are dropped, as in Java.

    A missing current version or schema is refused; Java detects it only at its first use. Raises BadRequest and IllegalArgument.
    """
    if not isinstance(document, dict):
        raise BadRequest(f"Cannot parse view metadata from non-object: {show(document)}")
    check_uuid(get_string(document, "view-uuid"))
    parsed: Json = {
        "view-uuid": get_string(document, "view-uuid"),
        "format-version": get_int(document, "format-version"),
        "location": get_string(document, "location"),
        "properties": get_string_map(document, "properties") if "properties" in document else {},
        "schemas": [parse_schema(schema) for schema in _array(document, "schemas")],
        "current-version-id": get_int(document, "current-version-id"),
        "versions": [parse_version(version) for version in _array(document, "versions")],
        "version-log": [_parse_history_entry(entry) for entry in _array(document, "version-log")],
    }
    for kind, id_key in (("versions", "version-id"), ("schemas", "schema-id")):
        ids = [element[id_key] for element in parsed[kind]]
        if len(set(ids)) < len(ids):
            twice = next(one for one, count in Counter(ids).items() if count > 1)
            raise IllegalArgument(f"Multiple entries with same key: {twice}")
    return checked(parsed)


def checked(document: Json) -> Json:
    """Returns the document if readers can use it."""
    if document["format-version"] != VIEW_FORMAT_VERSION:
        raise IllegalArgument(f"Unsupported format version: {document['format-version']}")
    version_id, versions = document["current-version-id"], document["versions"]
    current = find_version(versions, version_id)
    if current is None:
        known = [version["version-id"] for version in versions]
        raise IllegalArgument(f"Cannot find current version {version_id} in view versions: {known}")
    schema_ids = [schema["schema-id"] for schema in document["schemas"]]
    if current["schema-id"] not in schema_ids:
        raise IllegalArgument(f"Cannot find current schema with id {current['schema-id']} in schemas: {schema_ids}")
    unsupported = unsupported_types(versions)
    if unsupported:
        raise IllegalArgument(f"Cannot serialize unsupported view representation: {unsupported[0]}")
    return document


def find_version(versions: list[Json], version_id: int) -> Json | None:
    """The version with this id."""
    return next((version for version in versions if version["version-id"] == version_id), None)


def unsupported_types(versions: list[Json]) -> list[str]:
    """The types of representations other than SQL. A version that has one can be parsed but not stored."""
    return [one["type"] for version in versions for one in version["representations"] if one["type"] != "sql"]


def _array(node: Json, name: str) -> list[object]:
    value = get(node, name)
    if not isinstance(value, list):
        raise BadRequest(f"Cannot parse {name} from non-array: {show(value)}")
    return value


def parse_version(node: object) -> Json:
    """A view version in canonical form, with keys in Java's order and `default-catalog` only if not null."""
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse view version from a non-object: {show(node)}")
    default_catalog = get_string_or_none(node, "default-catalog")
    return {
        "version-id": get_int(node, "version-id"),
        "timestamp-ms": get_long(node, "timestamp-ms"),
        "schema-id": get_int(node, "schema-id"),
        "summary": get_string_map(node, "summary"),
        **({} if default_catalog is None else {"default-catalog": default_catalog}),
        "default-namespace": _parse_namespace(get(node, "default-namespace")),
        "representations": [_parse_representation(representation) for representation in _array(node, "representations")],
    }


def _parse_namespace(levels: object) -> list[str]:
    """Refuses levels that are not strings; Java converts them to text."""
    if not isinstance(levels, list):
        raise BadRequest(f"Cannot parse string array from non-array: {show(levels)}")
    for level in levels:
        if not isinstance(level, str):
            raise BadRequest(f"Cannot parse string from non-text value in default-namespace: {show(level)}")
        if "\0" in level:
            raise IllegalArgument("Cannot create a namespace with the null-byte character")
    return list(levels)


def _parse_representation(node: object) -> Json:
    """A query, or for an unknown type (which can be compared but not stored) only its type."""
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse view representation from non-object: {show(node)}")
    kind = get_string(node, "type").lower()
    if kind != "sql":
        return {"type": kind}
    return {"type": kind, "sql": get_string(node, "sql"), "dialect": get_string(node, "dialect")}


def _parse_history_entry(node: object) -> Json:
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse view history entry from non-object: {show(node)}")
    version_id = get_int(node, "version-id")
    return {"timestamp-ms": get_long(node, "timestamp-ms"), "version-id": version_id}
