"""Indexes the names of namespaces, tables and views for the search (projections/search.py reads them)."""

from collections import Counter
from collections.abc import Sequence

from psycopg import Cursor
from psycopg.rows import DictRow

from ...database.advisory_locks import AdvisoryLock
from ...database.named_sql import named_sql
from ...domain.read_models.search import name_terms, search_names
from ...domain.recorded import RecordedEvent
from .projection import AsynchronousProjection, AsynchronousView

_SQL = named_sql("icecore.projections", "search.sql")


class SearchView(AsynchronousView):
    """`icecore.search_names` and `icecore.search_terms`, with `icecore.search_tracking`."""

    def remove_rows(self, cursor: Cursor[DictRow]) -> None:
        cursor.execute(_SQL["remove_names"])
        cursor.execute(_SQL["remove_terms"])

    def analyze(self, cursor: Cursor[DictRow]) -> None:
        cursor.execute(_SQL["analyze"])

    def write(self, cursor: Cursor[DictRow], events: Sequence[RecordedEvent]) -> None:
        names = search_names(events)
        if not names:
            return
        removed = cursor.execute(_SQL["remove"], {"ids": [*names]}, prepare=True).fetchall()
        added: list[dict[str, object]] = []
        objects: Counter[int] = Counter()
        for row in removed:
            objects.subtract(row["terms"])
        for object_id, named in names.items():
            if named is not None:
                terms = name_terms(named.warehouse_id, named.name)
                objects.update(terms)
                added.append(
                    {"object_id": object_id, "warehouse_id": named.warehouse_id, "kind": named.kind, "name": named.name, "terms": terms}
                )
        cursor.executemany(_SQL["add"], added)
        changed = {term: change for term, change in sorted(objects.items()) if change}
        cursor.execute(_SQL["count"], {"terms": [*changed], "changes": [*changed.values()]}, prepare=True)
        cursor.execute(_SQL["forget"], {"terms": [term for term, change in changed.items() if change < 0]}, prepare=True)


class SearchProjection(AsynchronousProjection):
    name = "search"
    VIEW = SearchView
    LEADER_LOCK = AdvisoryLock.SEARCH
