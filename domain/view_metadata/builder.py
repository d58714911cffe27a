"""Builds new and changed view metadata (Java `ViewMetadata.Builder` and `BaseMetastoreViewCatalog`)."""

import hashlib
import re

import orjson

from ..errors import IllegalArgument, ValidationFailed
from ..metadata.fields import INT_MAX, INT_MIN, Json, check_uuid, get, get_string_map
from ..metadata.indexed_parts import IndexedParts
from ..metadata.schemas import INITIAL_SCHEMA_ID, parse_schema, rough_schema_key, schema_key, with_schema_id
from .parse import VIEW_FORMAT_VERSION, checked, find_version, parse_version, unsupported_types

INITIAL_VERSION_ID = 1
LAST_ADDED = -1

VERSION_HISTORY_SIZE = "version.history.num-entries"
VERSION_HISTORY_SIZE_DEFAULT = 10
REPLACE_DROP_DIALECT_ALLOWED = "replace.drop-dialect.allowed"


def new_view_metadata(*, view_uuid: str, location: str, schema: object, view_version: object, properties: object, now_ms: int) -> Json:
    """The first document of a view. Its version has id 1 and the time `now_ms`, whatever the client sent.

    The client's summary is kept; Java's server adds its own environment to it. Raises BadRequest, IllegalArgument and ValidationFailed.
    """
    version = parse_version(get({"view-version": view_version}, "view-version"))
    parsed_schema = parse_schema(get({"schema": schema}, "schema"))
    parsed_properties = get_string_map({"properties": properties}, "properties")
    unsupported = unsupported_types([version])
    if unsupported:
        raise IllegalArgument(f"Found unsupported view representations: {_listed(unsupported)}")
    if not version["representations"]:
        raise IllegalArgument("Cannot create view without specifying a query")
    builder = ViewMetadataBuilder(None, now_ms)
    builder.assign_uuid(view_uuid)
    builder.set_properties(parsed_properties)
    builder.set_location(location)
    schema_id = builder.add_schema(parsed_schema)
    builder.add_version({**version, "version-id": INITIAL_VERSION_ID, "timestamp-ms": now_ms, "schema-id": schema_id})
    builder.set_current_version(LAST_ADDED)
    return builder.build()


class ViewMetadataBuilder:
    """Collects changes to a view. Lists are replaced, not modified, so that `base` does not change."""

    def __init__(self, base: Json | None, now_ms: int) -> None:
        self._base = base
        self._now_ms = now_ms
        document: Json = base or {}
        self._uuid: str | None = document.get("view-uuid")
        self._format_version: int = document.get("format-version", VIEW_FORMAT_VERSION)
        self._location: str | None = document.get("location")
        self._properties: dict[str, str] = document.get("properties", {})
        self._schemas = IndexedParts(document.get("schemas", ()), "schema-id", schema_key, rough_schema_key)
        self._current_version_id: int = document.get("current-version-id", 0)
        self._versions = IndexedParts(document.get("versions", ()), "version-id", _version_key)
        self._history: list[Json] = document.get("version-log", [])
        self._history_entry: Json | None = None
        self._last_added_schema_id: int | None = None
        self._last_added_version_id: int | None = None
        self._added_version_ids: set[int] = set()
        self._owns_properties = False
        self._changed = False

    def assign_uuid(self, uuid: str) -> None:
        if self._uuid is not None and self._uuid != uuid:
            raise IllegalArgument("Cannot reassign uuid")
        if self._uuid is None:
            check_uuid(uuid)
            self._uuid = uuid
            self._changed = True

    def upgrade_format_version(self, version: int) -> None:
        if version < self._format_version:
            raise IllegalArgument(f"Cannot downgrade v{self._format_version} view to v{version}")
        self._changed |= version != self._format_version
        self._format_version = version

    def set_location(self, location: str) -> None:
        self._changed |= location != self._location
        self._location = location

    def set_properties(self, updates: dict[str, str]) -> None:
        if updates:
            self._own_properties().update(updates)

    def remove_properties(self, removals: list[str]) -> None:
        if removals:
            properties = self._own_properties()
            for key in removals:
                properties.pop(key, None)

    def _own_properties(self) -> dict[str, str]:
        """The properties, as a copy that can be modified."""
        if not self._owns_properties:
            self._properties, self._owns_properties = dict(self._properties), True
        self._changed = True
        return self._properties

    def add_schema(self, schema: Json) -> int:
        """Adds the schema with the next free id and returns the id, or that of an equal schema."""
        known_id = self._schemas.id_of_equal(schema)
        if known_id is not None:
            return known_id
        schema_id = self._schemas.next_id(INITIAL_SCHEMA_ID)
        self._schemas.add(with_schema_id(schema, schema_id))
        self._last_added_schema_id = schema_id
        self._changed = True
        return schema_id

    def add_version(self, version: Json) -> None:
        """Adds the version with its own id, or with the next one if that is not greater than all others. An equal version is reused."""
        known_id = self._versions.id_of_equal(version)
        if known_id is not None:
            self._last_added_version_id = known_id if known_id in self._added_version_ids else None
            return
        version_id = self._versions.next_id(version["version-id"])
        schema_id = version["schema-id"]
        if schema_id == LAST_ADDED:
            if self._last_added_schema_id is None:
                raise ValidationFailed("Cannot set last added schema: no schema has been added")
            schema_id = self._last_added_schema_id
        if schema_id not in self._schemas.by_id:
            raise IllegalArgument(f"Cannot add version with unknown schema: {schema_id}")
        _check_one_query_per_dialect(version)
        self._versions.add({**version, "version-id": version_id, "schema-id": schema_id})
        self._last_added_version_id = version_id
        self._added_version_ids.add(version_id)
        self._changed = True

    def set_current_version(self, version_id: int) -> None:
        if version_id == LAST_ADDED:
            if self._last_added_version_id is None:
                raise ValidationFailed("Cannot set last version id: no current version id has been set")
            version_id = self._last_added_version_id
        if version_id == self._current_version_id:
            return
        version = self._versions.by_id.get(version_id)
        if version is None:
            raise IllegalArgument(f"Cannot set current version to unknown version: {version_id}")
        self._current_version_id = version_id
        # A version of this change has its own time. An older version becomes current now.
        timestamp_ms = version["timestamp-ms"] if version_id in self._added_version_ids else self._now_ms
        self._history_entry = {"timestamp-ms": timestamp_ms, "version-id": version_id}
        self._changed = True

    def build(self) -> Json:
        """The document, or `base` itself if nothing changed; as in Java only a changed one loses its oldest versions."""
        if self._location is None:
            raise IllegalArgument("Invalid location: null")
        if not self._versions.by_id:
            raise IllegalArgument("Invalid view: no versions were added")
        if self._base is not None and self._properties.get(REPLACE_DROP_DIALECT_ALLOWED, "").lower() != "true":
            self._check_no_dialect_is_dropped(self._base)
        history_size = _history_size(self._properties)
        if self._base is not None and not self._changed:
            return self._base
        history = self._history if self._history_entry is None else [*self._history, self._history_entry]
        versions = list(self._versions.by_id.values()) if self._versions.changed or self._base is None else self._base["versions"]
        versions_to_keep = max(len(self._added_version_ids | {self._current_version_id}), history_size)
        if len(versions) > versions_to_keep:
            versions = self._newest_versions(versions_to_keep)
            history = _history_of(versions, history)
        if self._uuid is None:
            raise IllegalArgument("Cannot set uuid to null")
        return checked(
            {
                "view-uuid": self._uuid,
                "format-version": self._format_version,
                "location": self._location,
                "properties": self._properties,
                "schemas": list(self._schemas.by_id.values()) if self._schemas.changed or self._base is None else self._base["schemas"],
                "current-version-id": self._current_version_id,
                "versions": versions,
                "version-log": history,
            }
        )

    def _check_no_dialect_is_dropped(self, base: Json) -> None:
        previous = _dialects(find_version(base["versions"], base["current-version-id"]))
        current = _dialects(self._versions.by_id.get(self._current_version_id))
        if not previous <= current:
            raise ValidationFailed(
                f"Cannot replace view due to loss of view dialects ({REPLACE_DROP_DIALECT_ALLOWED}=false):\n"
                f"Previous dialects: {_listed(previous)}\nNew dialects: {_listed(current)}"
            )

    def _newest_versions(self, count: int) -> list[Json]:
        """The current version and then the others by descending id, `count` in total."""
        newest = sorted(self._versions.by_id.values(), key=lambda version: version["version-id"], reverse=True)
        current = [version for version in newest if version["version-id"] == self._current_version_id]
        others = [version for version in newest if version["version-id"] != self._current_version_id]
        return (current + others)[:count]


def _version_key(version: Json) -> bytes:
    """A key that is equal for versions with the same behaviour. Id and time do not matter."""
    fields = ("summary", "representations", "default-catalog", "default-namespace", "schema-id")
    return hashlib.sha256(orjson.dumps([version.get(field) for field in fields], option=orjson.OPT_SORT_KEYS)).digest()


def _history_of(versions: list[Json], history: list[Json]) -> list[Json]:
    """The entries after the last one whose version does not exist any more."""
    known = {version["version-id"] for version in versions}
    unknown = [index for index, entry in enumerate(history) if entry["version-id"] not in known]
    return history[unknown[-1] + 1 :] if unknown else history


def _history_size(properties: dict[str, str]) -> int:
    text = properties.get(VERSION_HISTORY_SIZE, str(VERSION_HISTORY_SIZE_DEFAULT))
    number = re.fullmatch("([+-]?)0*([0-9]{1,10})", text)
    size = int(number.group(1) + number.group(2)) if number else None
    if size is None or not INT_MIN <= size <= INT_MAX:
        raise IllegalArgument(f'For input string: "{text}"')
    if size <= 0:
        raise IllegalArgument(f"{VERSION_HISTORY_SIZE} must be positive but was {size}")
    return size


def _check_one_query_per_dialect(version: Json) -> None:
    seen: set[str] = set()
    for dialect in [one["dialect"].lower() for one in version["representations"] if one["type"] == "sql"]:
        if dialect in seen:
            raise IllegalArgument(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
        seen.add(dialect)


def _dialects(version: Json | None) -> set[str]:
    return {one["dialect"].lower() for one in version["representations"] if one["type"] == "sql"} if version else set()


def _listed(words: set[str] | list[str]) -> str:
    return f"[{', '.join(sorted(set(words)))}]"
