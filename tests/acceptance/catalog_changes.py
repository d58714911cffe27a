"""Random changes of many tables by several clients at once: appends, columns, properties, renames, drops and undrops.

Each client has tables of its own and remembers what the catalog acknowledged, so a test can compare the log with it.
"""

import contextlib
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import orjson

from benchmarks import work
from benchmarks.rest import RestCatalog
from tests.servers.icecore import Icecore, operate

WAREHOUSE = "lake"
CHANGES = {"append": 80, "add_column": 6, "set_property": 4, "rename": 5, "drop_and_undrop": 4, "drop": 1}
"""Each change and how often it is made, of a hundred."""


@dataclass(slots=True)
class ChangedTable:
    """A table as its client knows it."""

    namespace: str
    name: str
    metadata: dict[str, Any]
    snapshot_id: int | None = None
    columns: int = work.COLUMNS
    snapshots: int = 0

    @property
    def uuid(self) -> str:
        return str(self.metadata["table-uuid"])


@dataclass(slots=True)
class Acknowledged:
    """What the catalog acknowledged.

    commits -- the table's uuid and, of an append, its snapshot and rows. renames, undrops, drops -- their numbers.
    """

    commits: list[tuple[str, int | None, int]] = field(default_factory=list)
    renames: int = 0
    undrops: int = 0
    drops: int = 0

    def include(self, other: "Acknowledged") -> None:
        self.commits += other.commits
        self.renames += other.renames
        self.undrops += other.undrops
        self.drops += other.drops


def soft_deleting_warehouse(server: Icecore, directory: str) -> None:
    """The warehouse of the changes, whose drops can be undone."""
    server.create_warehouse(WAREHOUSE, {"type": "local", "directory": directory})
    operate("warehouse", "delete-profile", WAREHOUSE, "--soft", "7d", "--data", str(server.data))


def change_tables(server: Icecore, namespaces: Sequence[str], *, tables: int, commits: int, clients: int, seed: int) -> Acknowledged:
    """Creates the namespaces, with `tables` tables in all, and makes changes until `commits` commits of tables are acknowledged.

    Namespaces are paths in the form of addresses, with levels that %1F separates; those that exist are used.
    """
    with contextlib.closing(RestCatalog(server.catalog_uri, WAREHOUSE)) as catalog:
        for namespace in namespaces:
            if "%1F" not in namespace:
                catalog.create_namespace(namespace)
    shares = [(number, len(range(number, tables, clients)), len(range(number, commits, clients))) for number in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        parts = [*pool.map(lambda share: _Client(server, namespaces, seed, *share).run(), shares)]
    total = Acknowledged()
    for part in parts:
        total.include(part)
    return total


class _Client:
    """Changes its own tables, one request after the other."""

    def __init__(self, server: Icecore, namespaces: Sequence[str], seed: int, number: int, tables: int, commits: int) -> None:
        self._catalog = RestCatalog(server.catalog_uri, WAREHOUSE)
        self._namespaces = namespaces
        self._drawn = random.Random(f"{seed} {number}")
        self._prefix = f"t{seed}_{number}"
        self._tables = tables
        self._commits = commits
        self._made = 0
        self._live: list[ChangedTable] = []
        self.acknowledged = Acknowledged()

    def run(self) -> Acknowledged:
        changes: dict[str, Callable[[ChangedTable], None]] = {
            "append": self._append,
            "add_column": self._add_column,
            "set_property": self._set_property,
            "rename": self._rename,
            "drop_and_undrop": self._drop_and_undrop,
            "drop": self._drop,
        }
        with contextlib.closing(self._catalog):
            while len(self.acknowledged.commits) < self._commits:
                if len(self._live) < self._tables:
                    self._create()
                    continue
                (change,) = self._drawn.choices([*CHANGES], weights=[*CHANGES.values()])
                changes[change](self._drawn.choice(self._live))
        return self.acknowledged

    def _new_name(self) -> str:
        self._made += 1
        return f"{self._prefix}_{self._made}"

    def _create(self) -> None:
        namespace, name = self._drawn.choice(self._namespaces), self._new_name()
        self._live.append(ChangedTable(namespace, name, self._catalog.create_table(namespace, name)))

    def _commit(self, table: ChangedTable, body: bytes, snapshot_id: int | None = None, rows: int = 0) -> None:
        self._catalog.commit(table.namespace, table.name, body)
        self.acknowledged.commits.append((table.uuid, snapshot_id, rows))

    def _append(self, table: ChangedTable) -> None:
        snapshot_id = work.new_snapshot_id()
        body = work.append_body(table.metadata["location"], table.snapshots + 1, snapshot_id, table.snapshot_id)
        rows = int(orjson.loads(body)["updates"][0]["snapshot"]["summary"]["added-records"])
        self._commit(table, body, snapshot_id, rows)
        table.snapshots, table.snapshot_id = table.snapshots + 1, snapshot_id

    def _add_column(self, table: ChangedTable) -> None:
        schema = work.schema(table.columns + 1)
        updates = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
        self._commit(table, orjson.dumps({"requirements": [], "updates": updates}))
        table.columns += 1

    def _set_property(self, table: ChangedTable) -> None:
        self._commit(table, work.properties_body({"owner": f"team-{self._drawn.randrange(9)}"}))

    def _rename(self, table: ChangedTable) -> None:
        namespace, name = self._drawn.choice(self._namespaces), self._new_name()
        body = {"source": _identifier(table.namespace, table.name), "destination": _identifier(namespace, name)}
        self._catalog.call("POST", f"{self._catalog.prefix}/tables/rename", orjson.dumps(body))
        table.namespace, table.name = namespace, name
        self.acknowledged.renames += 1

    def _drop(self, table: ChangedTable) -> None:
        self._catalog.call("DELETE", self._catalog.table_path(table.namespace, table.name))
        self._live.remove(table)
        self.acknowledged.drops += 1

    def _drop_and_undrop(self, table: ChangedTable) -> None:
        self._drop(table)
        warehouse = self._catalog.prefix.rpartition("/")[2]
        # The id of a table that was created here is its UUID. Its manifests do not exist, so the catalog needs to be forced.
        targets = {"targets": [{"type": "table", "id": table.uuid}], "force": True}
        self._catalog.call("POST", f"/management/v1/warehouse/{warehouse}/deleted-tabulars/undrop", orjson.dumps(targets))
        self._live.append(table)
        self.acknowledged.undrops += 1


def _identifier(namespace: str, name: str) -> dict[str, Any]:
    return {"namespace": namespace.split("%1F"), "name": name}
