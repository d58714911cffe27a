"""The result of a change to a table or view, as updates of the REST specification.

The log keeps what changed, not what was requested. Updates that cancel each other are missing, and so is what follows from others
(logs, counters, the current snapshot of `main`).
"""

from collections.abc import Mapping
from typing import Any

from ..domain.documents import TABLE_KINDS, VIEW_KINDS, Delta, Json, Part, PartsDelta, split

Removed = Mapping[tuple[str, int], Json]
"""Removed parts by kind and ordinal; refs as `{"ref-name": …}`, snapshots with their id only."""


def updates_of_new_table(metadata: Json) -> list[Json]:
    """From nothing to a first document."""
    return [{"action": "assign-uuid", "uuid": metadata["table-uuid"]}, *updates_of_table(_everything(metadata, TABLE_KINDS), {})]


def updates_of_new_view(metadata: Json) -> list[Json]:
    """From nothing to a first document."""
    return [{"action": "assign-uuid", "uuid": metadata["view-uuid"]}, *updates_of_view(_everything(metadata, VIEW_KINDS))]


def updates_of_table(delta: Delta, removed: Removed) -> list[Json]:
    """The updates of a commit; `removed` has every part that `delta` removes and to which an update can refer."""
    members = delta.members_set
    changes = {kind: _Changed(delta.parts.get(kind, PartsDelta()), removed, kind, key) for kind, key in _IDENTIFIED_BY.items()}
    return [
        *_updates_of_members(members, "upgrade-format-version", "set-location"),
        *({"action": "add-schema", "schema": schema} for schema in changes["schemas"].added),
        *_updates_of_members(members, "set-current-schema"),
        *({"action": "add-spec", "spec": spec} for spec in changes["partition-specs"].added),
        *_updates_of_members(members, "set-default-spec"),
        *({"action": "add-sort-order", "sort-order": order} for order in changes["sort-orders"].added),
        *_updates_of_members(members, "set-default-sort-order"),
        *_updates_of_properties(delta),
        *({"action": "add-encryption-key", "encryption-key": key} for key in changes["encryption-keys"].added),
        *({"action": "add-snapshot", "snapshot": snapshot} for snapshot in changes["snapshots"].added),
        *({"action": "set-snapshot-ref", **ref} for ref in changes["refs"].added),
        *({"action": "remove-snapshot-ref", "ref-name": name} for name in changes["refs"].removed),
        *_removal("remove-snapshots", "snapshot-ids", changes["snapshots"].removed),
        *({"action": "set-statistics", "snapshot-id": each["snapshot-id"], "statistics": each} for each in changes["statistics"].added),
        *({"action": "remove-statistics", "snapshot-id": each} for each in changes["statistics"].removed),
        *({"action": "set-partition-statistics", "partition-statistics": each} for each in changes["partition-statistics"].added),
        *({"action": "remove-partition-statistics", "snapshot-id": each} for each in changes["partition-statistics"].removed),
        *_removal("remove-partition-specs", "spec-ids", changes["partition-specs"].removed),
        *_removal("remove-schemas", "schema-ids", changes["schemas"].removed),
        *({"action": "remove-encryption-key", "key-id": each} for each in changes["encryption-keys"].removed),
    ]


def updates_of_view(delta: Delta) -> list[Json]:
    """The updates of a commit; there is none for versions that the catalog expired."""
    added = {kind: [part.value for part in delta.parts.get(kind, PartsDelta()).added] for kind in VIEW_KINDS}
    return [
        *_updates_of_members(delta.members_set, "upgrade-format-version", "set-location"),
        *_updates_of_properties(delta),
        *({"action": "add-schema", "schema": schema} for schema in added["schemas"]),
        *({"action": "add-view-version", "view-version": version} for version in added["versions"]),
        *_updates_of_members(delta.members_set, "set-current-view-version"),
    ]


# The updates that set a member of the head: the member, and its name in the update.
_MEMBER_UPDATES = {
    "upgrade-format-version": ("format-version", "format-version"),
    "set-location": ("location", "location"),
    "set-current-schema": ("current-schema-id", "schema-id"),
    "set-default-spec": ("default-spec-id", "spec-id"),
    "set-default-sort-order": ("default-sort-order-id", "sort-order-id"),
    "set-current-view-version": ("current-version-id", "view-version-id"),
}
_IDENTIFIED_BY = {
    "schemas": "schema-id",
    "partition-specs": "spec-id",
    "sort-orders": "order-id",
    "snapshots": "snapshot-id",
    "refs": "ref-name",
    "statistics": "snapshot-id",
    "partition-statistics": "snapshot-id",
    "encryption-keys": "key-id",
}
REMOVALS_NAMED = frozenset(_IDENTIFIED_BY) - {"sort-orders"}
"""The kinds that have an update for removals."""


class _Changed:
    """The parts of one kind that were added and removed; a part that only moved is neither."""

    def __init__(self, change: PartsDelta, removed: Removed, kind: str, key: str) -> None:
        before = {each[key]: each for ordinal in change.removed if (each := removed.get((kind, ordinal))) is not None}
        after = {each[key]: each for each in map(part_value, change.added)}
        self.added = [each for name, each in after.items() if before.get(name) != each]
        self.removed = [name for name in before if name not in after]


def part_value(part: Part) -> Json:
    """A part in the form of an update: a ref includes its name."""
    value: Json = part.value
    return value if part.key is None else {"ref-name": part.key, **value}


def _everything(metadata: Json, kinds: tuple[str, ...]) -> Delta:
    document = split(metadata, kinds)
    members = {name: member for name, member in metadata.items() if name not in kinds and name != "properties"}
    return Delta(members, properties_set=metadata.get("properties", {}), parts={k: PartsDelta(p) for k, p in document.parts.items()})


def _updates_of_members(members: Json, *actions: str) -> list[Json]:
    named = ((action, *_MEMBER_UPDATES[action]) for action in actions)
    return [{"action": action, called: members[member]} for action, member, called in named if member in members]


def _updates_of_properties(delta: Delta) -> list[Json]:
    updates: list[Json] = []
    if delta.properties_set:
        updates.append({"action": "set-properties", "updates": dict(delta.properties_set)})
    if delta.properties_removed:
        updates.append({"action": "remove-properties", "removals": list(delta.properties_removed)})
    return updates


def _removal(action: str, called: str, names: list[Any]) -> list[Json]:
    return [{"action": action, called: names}] if names else []
