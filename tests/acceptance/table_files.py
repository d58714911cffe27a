"""The files of a table, in a folder or a bucket, to see what a purge leaves."""

from datetime import UTC, datetime

from pyiceberg.table import Table

from tests.fixtures.waiting import wait_for


def files_of(table: Table) -> list[str]:
    """The metadata file, the manifest lists, and the data and delete files of all snapshots. They exist now."""
    paths = [table.metadata_location, *(snapshot.manifest_list for snapshot in table.snapshots())]
    paths += table.inspect.all_files()["file_path"].to_pylist()
    assert paths == existing(table, paths)
    return paths


def existing(table: Table, paths: list[str]) -> list[str]:
    """Those of the paths where there is a file."""
    return [path for path in paths if table.io.new_input(path).exists()]


def wait_until_purged(table: Table, paths: list[str]) -> None:
    """Returns when none of the files is left. The server deletes them after the response to the drop."""
    wait_for(lambda: not existing(table, paths))


def now() -> str:
    """The present as the time of a past state. Every change that was acknowledged before is part of it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
