"""Verifies the index of names for the search: indexes the log again, up to the position that the index has reached."""

from collections import Counter
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.read_models.search import SearchName, name_terms, search_names
from ..domain.recorded import RecordedEvent
from .verify_report import VerifyReport
from .verify_tracking import check_position, tracked_position

_SQL = named_sql("icecore.projections", "search.sql")
_COLUMNS = ("warehouse_id", "kind", "name", "terms")


class SearchCheck:
    """Folds every event of the log that is added, then compares."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._names: dict[UUID, SearchName] = {}

    @classmethod
    async def begin(cls, connection: Connection, report: VerifyReport) -> "SearchCheck":
        return cls(await tracked_position(connection, report, "search_tracking", _SQL["tracking"]))

    def add(self, event: RecordedEvent) -> None:
        if event.position <= self._position:
            for object_id, named in search_names([event]).items():
                if named is None:
                    self._names.pop(object_id, None)
                else:
                    self._names[object_id] = named

    async def compare(self, connection: Connection, report: VerifyReport) -> None:
        check_position(report, "search_tracking", self._position)
        objects: Counter[int] = Counter()
        async for object_id, *values in await connection.execute(_SQL["every_name"], binary=True):
            where, named = f"object_id {object_id}", self._names.pop(object_id, None)
            if named is None:
                report.add("search_names", where, None, None, values)
                continue
            terms = name_terms(named.warehouse_id, named.name)
            objects.update(terms)
            for column, wanted, value in zip(_COLUMNS, (named.warehouse_id, named.kind, named.name, terms), values, strict=True):
                if wanted != value:
                    report.add("search_names", where, column, wanted, value)
        for object_id, named in self._names.items():
            report.add("search_names", f"object_id {object_id}", None, named, None)
            objects.update(name_terms(named.warehouse_id, named.name))
        async for term, number in await connection.execute(_SQL["every_term"], binary=True):
            counted = objects.pop(term, None)
            if counted != number:
                report.add("search_terms", f"term {term}", None if counted is None else "objects", counted, number)
        for term, number in objects.items():
            report.add("search_terms", f"term {term}", None, number, None)
