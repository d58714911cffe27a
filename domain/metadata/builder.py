"""The table metadata builder: applies updates one by one, then checks the whole (Java `TableMetadata.Builder`)."""

from ..errors import IllegalArgument
from ..format_versions import FORMAT_VERSION_DEFAULT, FORMAT_VERSION_MAX, FORMAT_VERSIONS
from .columns import ColumnsBuilder
from .draft import Draft
from .fields import Json, check_uuid
from .history import HistoryBuilder
from .logs import append_metadata_log, check_metadata_log

SUPPORTED_VERSIONS = ", ".join(f"v{version}" for version in FORMAT_VERSIONS)


def strip_trailing_slash(location: str) -> str:
    """The location without slashes at its end, but never `scheme://` without its slashes."""
    if not location:
        raise IllegalArgument("path must not be null or empty")
    while location.endswith("/") and not location.endswith("://"):
        location = location[:-1]
    return location


class TableMetadataBuilder:
    """Collects changes to one document; `base` is not modified.

    columns -- the updates of schemas, specs and orders.
    history -- the updates of snapshots, refs and statistics.
    """

    def __init__(self, base: Json | None, *, now_ms: int, format_version: int = FORMAT_VERSION_DEFAULT) -> None:
        self._draft = Draft(base, format_version, now_ms)
        self.columns = ColumnsBuilder(self._draft)
        self.history = HistoryBuilder(self._draft, self.columns)
        self._keys_by_id: dict[str, list[Json]] | None = None

    def assign_uuid(self, uuid: str) -> None:
        """Sets the UUID of a table that has none: a new table, or one from before format version 2. Java overwrites any UUID."""
        current = self._draft.document["table-uuid"] if self._draft.base is not None else None
        if current is not None and uuid.lower() != current.lower():
            raise IllegalArgument("Cannot reassign uuid")
        if current is None:
            check_uuid(uuid)
            self._draft.set("table-uuid", uuid)

    def upgrade_format_version(self, version: int) -> None:
        current = self._draft.document["format-version"]
        if version > FORMAT_VERSION_MAX:
            raise IllegalArgument(f"Cannot upgrade table to unsupported format version: v{version} (supported: {SUPPORTED_VERSIONS})")
        if version < current:
            raise IllegalArgument(f"Cannot downgrade v{current} table to v{version}")
        if version != current:
            self._draft.set("format-version", version)

    def set_location(self, location: str) -> None:
        if location != self._draft.document["location"]:
            self._draft.set("location", location)

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
        if "properties" not in self._draft.owned:
            self._draft.document["properties"] = dict(self._draft.document["properties"])
        self._draft.touch("properties")
        properties: dict[str, str] = self._draft.document["properties"]
        return properties

    def add_encryption_key(self, key: Json) -> None:
        keys = self._encryption_keys()
        if key["key-id"] not in keys:
            keys[key["key-id"]] = [key]
            self._draft.touch("encryption-keys")

    def remove_encryption_key(self, key_id: str) -> None:
        if self._encryption_keys().pop(key_id, None) is not None:
            self._draft.touch("encryption-keys")

    def _encryption_keys(self) -> dict[str, list[Json]]:
        if self._keys_by_id is None:
            self._keys_by_id = {}
            for key in self._draft.document["encryption-keys"]:
                self._keys_by_id.setdefault(key["key-id"], []).append(key)
        return self._keys_by_id

    def build(self, previous_metadata_location: str | None) -> Json:
        """The changed document, or `base` itself if nothing changed. Raises an error if it violates a rule of the table spec."""
        draft, base, document = self._draft, self._draft.base, self._draft.document
        if not draft.changed and base is not None:
            return base
        document["last-updated-ms"] = draft.now_ms
        self.columns.finish()
        self.columns.check()
        if "encryption-keys" in draft.owned:
            document["encryption-keys"] = [key for keys in self._encryption_keys().values() for key in keys]
        if base is not None and previous_metadata_location is not None:
            document["metadata-log"] = append_metadata_log(
                document["metadata-log"], previous_metadata_location, base["last-updated-ms"], document["properties"]
            )
        self.history.finish()
        self._check_head()
        self.history.check()
        check_metadata_log(document["metadata-log"], draft.now_ms, len(document["metadata-log"]) - 1)
        return document

    def _check_head(self) -> None:
        document = self._draft.document
        version = document["format-version"]
        if version < 1:
            raise IllegalArgument(f"Unsupported format version: v{version} (supported: {SUPPORTED_VERSIONS})")
        if version > 1 and document["table-uuid"] is None:
            raise IllegalArgument(f"UUID is required in format v{version}")
        if version == 1 and document["last-sequence-number"] != 0:
            raise IllegalArgument(f"Sequence number must be 0 in v1: {document['last-sequence-number']}")
        if document["location"] is None:
            raise IllegalArgument("path must not be null or empty")
        if self._draft.base is None or document["location"] is not self._draft.base["location"]:
            document["location"] = strip_trailing_slash(document["location"])
