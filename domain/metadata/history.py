"""Changes to snapshots, refs and statistics of a table, and the resulting snapshot log."""

from ..errors import IllegalArgument, ValidationFailed
from .columns import ColumnsBuilder
from .draft import Draft
from .fields import LONG_MAX, Json
from .logs import check_snapshot_log, correct_snapshot_log
from .snapshots import MAIN_BRANCH, check_sequence_numbers

ROW_LINEAGE_MIN_FORMAT_VERSION = 3


class HistoryBuilder:
    """The updates of snapshots, branches, tags and statistics. Snapshots are indexed at most once, on first use."""

    def __init__(self, draft: Draft, columns: ColumnsBuilder) -> None:
        self._draft = draft
        self._columns = columns
        self._names_by_snapshot: dict[int, dict[str, None]] | None = None
        self._snapshots_by_id: dict[int, Json] | None = None
        self._files_by_snapshot: dict[str, dict[int, list[Json]]] = {}
        self._added_snapshots: set[int] = set()
        self._main_within_request: set[int] = set()
        self._snapshots_removed = False
        self._sequence_went_back = False
        # The entry of the snapshot log from which on its order must be checked.
        self._log_start = len(draft.document["snapshot-log"])

    def add_snapshot(self, snapshot: Json, sequence: int) -> None:
        """`sequence` -- its number in the request, which `snapshot` has only if it is positive. It becomes the table's last one."""
        document = self._draft.document
        missing = self._columns.first_missing
        if missing is not None:
            raise ValidationFailed(f"Attempting to add a snapshot before a {missing} is added")
        snapshot_id = snapshot["snapshot-id"]
        if snapshot_id in self._snapshots():
            raise ValidationFailed(f"Snapshot already exists for id: {snapshot_id}")
        last = document["last-sequence-number"]
        if document["format-version"] > 1 and sequence <= last and "parent-snapshot-id" in snapshot:
            if last == LONG_MAX:
                # Not retryable: there is no greater number.
                raise ValidationFailed(f"Cannot add snapshot with sequence number {sequence}: the table's last is {LONG_MAX}")
            raise self._draft.stale_error(f"Cannot add snapshot with sequence number {sequence} older than last sequence number {last}")
        self._sequence_went_back = self._sequence_went_back or sequence < last
        self._draft.set("last-sequence-number", sequence)
        self._snapshots()[snapshot_id] = snapshot
        self._draft.touch("snapshots")
        self._added_snapshots.add(snapshot_id)
        if document["format-version"] >= ROW_LINEAGE_MIN_FORMAT_VERSION:
            self._take_row_ids(snapshot)

    def _take_row_ids(self, snapshot: Json) -> None:
        first_row_id, next_row_id = snapshot.get("first-row-id"), self._draft.document["next-row-id"]
        if first_row_id is None:
            raise ValidationFailed("Cannot add a snapshot: first-row-id is null")
        if first_row_id < next_row_id:
            raise self._draft.stale_error(
                f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first_row_id} < {next_row_id}"
            )
        # The table spec requires next-row-id to be greater than all row ids assigned so far. Java adds the rows to its previous value, so
        # the next range may overlap one that began above it.
        row_ids_end = max(next_row_id, first_row_id) + snapshot["added-rows"]
        if row_ids_end > LONG_MAX:
            raise ValidationFailed(f"Cannot add a snapshot: added-rows {snapshot['added-rows']} exhaust the table's row ids")
        self._draft.set("next-row-id", row_ids_end)

    def set_ref(self, name: str, ref: Json) -> None:
        if self._draft.document["refs"].get(name) == ref:
            return
        snapshot_id = ref["snapshot-id"]
        snapshot = self._snapshots().get(snapshot_id)
        if snapshot is None:
            raise ValidationFailed(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
        if name == MAIN_BRANCH:
            if ref["type"] != "branch":
                raise ValidationFailed(f"Cannot set {MAIN_BRANCH} to a tag, it must be a branch")
            self._set_current_snapshot(snapshot_id, snapshot["timestamp-ms"])
        self._forget_name(name)
        self._own_refs()[name] = ref
        self._names().setdefault(snapshot_id, {})[name] = None

    def _set_current_snapshot(self, snapshot_id: int, snapshot_ms: int) -> None:
        is_added = snapshot_id in self._added_snapshots
        self._draft.document["current-snapshot-id"] = snapshot_id
        # A rollback to an older snapshot is dated now, whenever the snapshot was written.
        entry = {"timestamp-ms": snapshot_ms if is_added else self._draft.now_ms, "snapshot-id": snapshot_id}
        self._draft.own_list("snapshot-log").append(entry)
        if is_added:
            self._main_within_request.add(snapshot_id)

    def remove_ref(self, name: str) -> None:
        if name == MAIN_BRANCH:
            self._draft.document["current-snapshot-id"] = None
        if name in self._draft.document["refs"]:
            self._forget_name(name)
            del self._own_refs()[name]

    def _own_refs(self) -> dict[str, Json]:
        """The refs, as a copy that can be modified."""
        if "refs" not in self._draft.owned:
            self._draft.document["refs"] = dict(self._draft.document["refs"])
        self._draft.touch("refs")
        refs: dict[str, Json] = self._draft.document["refs"]
        return refs

    def _names(self) -> dict[int, dict[str, None]]:
        """The names of the refs to each snapshot."""
        if self._names_by_snapshot is None:
            self._names_by_snapshot = {}
            for name, ref in self._draft.document["refs"].items():
                self._names_by_snapshot.setdefault(ref["snapshot-id"], {})[name] = None
        return self._names_by_snapshot

    def _forget_name(self, name: str) -> None:
        if name in self._draft.document["refs"]:
            del self._names()[self._draft.document["refs"][name]["snapshot-id"]][name]

    def remove_snapshots(self, snapshot_ids: list[int]) -> None:
        snapshots = self._snapshots()
        for snapshot_id in snapshot_ids:
            if snapshots.pop(snapshot_id, None) is not None:
                self._draft.changed = self._snapshots_removed = True
                self._draft.touch("snapshots")
                self.remove_statistics(snapshot_id)
                self.remove_partition_statistics(snapshot_id)
                for name in list(self._names().get(snapshot_id, ())):
                    self.remove_ref(name)

    def set_statistics(self, file: Json) -> None:
        self._set_file("statistics", file)

    def remove_statistics(self, snapshot_id: int) -> None:
        self._remove_files("statistics", snapshot_id)

    def set_partition_statistics(self, file: Json) -> None:
        self._set_file("partition-statistics", file)

    def remove_partition_statistics(self, snapshot_id: int) -> None:
        self._remove_files("partition-statistics", snapshot_id)

    def _set_file(self, key: str, file: Json) -> None:
        files = self._files(key)
        files.pop(file["snapshot-id"], None)
        files[file["snapshot-id"]] = [file]
        self._draft.touch(key)

    def _remove_files(self, key: str, snapshot_id: int) -> None:
        if self._files(key).pop(snapshot_id, None) is not None:
            self._draft.touch(key)

    def finish(self) -> None:
        """Writes the changed lists and the snapshot log to the document."""
        document = self._draft.document
        if "snapshots" in self._draft.owned:
            document["snapshots"] = list(self._snapshots().values())
        for key, files in self._files_by_snapshot.items():
            if key in self._draft.owned:
                document[key] = [file for group in files.values() for file in group]
        self._share_refs()
        current = document["current-snapshot-id"]
        intermediate = self._main_within_request - {current}
        if intermediate or self._snapshots_removed:
            self._log_start = 0
            document["snapshot-log"] = correct_snapshot_log(
                document["snapshot-log"], self._snapshots(), current, intermediate, self._snapshots_removed
            )

    def _share_refs(self) -> None:
        """Reuses the base's object for a ref with the same value, because changes are detected by identity."""
        base, refs = self._draft.base, self._draft.document["refs"]
        if base is not None and refs is not base["refs"]:
            known = base["refs"]
            self._draft.document["refs"] = {name: known[name] if known.get(name) == ref else ref for name, ref in refs.items()}

    def check(self) -> None:
        """Refuses inconsistent snapshots, refs and logs. Checks only what the updates may have broken."""
        document = self._draft.document
        if self._sequence_went_back:
            check_sequence_numbers(document)
        current = document["current-snapshot-id"]
        check_snapshot_log(document["snapshot-log"], self._draft.now_ms, self._log_start)
        if self._snapshots_removed and current is not None and current not in self._snapshots():
            raise IllegalArgument("Invalid table metadata: Cannot find current version")

    def _snapshots(self) -> dict[int, Json]:
        if self._snapshots_by_id is None:
            self._snapshots_by_id = {snapshot["snapshot-id"]: snapshot for snapshot in self._draft.document["snapshots"]}
        return self._snapshots_by_id

    def _files(self, key: str) -> dict[int, list[Json]]:
        if key not in self._files_by_snapshot:
            grouped: dict[int, list[Json]] = {}
            for file in self._draft.document[key]:
                grouped.setdefault(file["snapshot-id"], []).append(file)
            self._files_by_snapshot[key] = grouped
        return self._files_by_snapshot[key]
