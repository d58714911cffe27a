"""The definitions of read models, the columns of the database and `icecore.write_rows` agree."""

from collections.abc import Iterator
from itertools import count
from typing import Any, get_args, get_type_hints
from uuid import UUID

import orjson
import psycopg
import pytest
from psycopg.types.string import TextLoader
from uuid_utils.compat import uuid7

from icecore.domain.read_models.definitions import PART_TOMBSTONES, READ_MODELS, PartRow, ReadModel, Row
from icecore.domain.read_models.rows import PARTS_AS_ROWS_MAX, PARTS_CLOSED_INLINE_MAX, ClosedParts, Rows
from icecore.projections.model_sql import model_sql

MODELS = (*READ_MODELS, PART_TOMBSTONES)
ALIASES = {"bigint": "int8", "smallint": "int2", "boolean": "bool"} | {kind: kind for kind in ("uuid", "text", "text[]", "bytea")}
# Ranges are read and written as text.
ALIASES["int8multirange"] = "text"
GENERATION, BEFORE = 7, 1000


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as opened:
        opened.adapters.register_loader("int8multirange", TextLoader)
        yield opened


def differing_columns(connection: psycopg.Connection[Any]) -> list[str]:
    """The columns whose name, position, type or nullability differ between database and definitions."""
    columns = (
        "select a.attname, format_type(a.atttypid, a.atttypmod), not a.attnotnull from pg_attribute a "
        "where a.attrelid = %s::text::regclass and a.attnum > 1 and not a.attisdropped order by a.attnum"
    )
    differing = set()
    for model in MODELS:
        may_be_none = [type(None) in get_args(hint) for hint in get_type_hints(model.row).values()]
        carried = zip(model.columns, model.types, may_be_none, strict=True)
        found = connection.execute(columns, (f"icecore.{model.table}",)).fetchall()
        plain = [(name, ALIASES[kind], may_be_null) for name, kind, may_be_null in found]
        differing |= {f"{model.table} {name}" for _, (name, *_) in set(enumerate(carried)) ^ set(enumerate(plain))}
    return sorted(differing)


def a_row(model: ReadModel, numbers: Iterator[int]) -> Any:
    """A row with a different value in every column."""
    made: dict[str, Any] = {
        "uuid": uuid7,
        "int8": lambda: next(numbers),
        "int2": lambda: next(numbers),
        "bool": lambda: True,
        "text": lambda: f"text {next(numbers)}",
        "text[]": lambda: [f"text {next(numbers)}", "ü"],
        "bytea": lambda: b"\x00%d" % next(numbers),
    }
    fixed = {
        "status": {"proposals": "open", "warehouses": "inactive", "projects": "active", "tasks": "scheduled"}.get(model.table, "live")
    } | ({"kind": "table"} if model.table in ("names", "soft_deleted") else {})
    fixed |= {"queue": "tabular_purge", "event": "stopped"}
    filled = {column: fixed.get(column) or made[kind]() for column, kind in zip(model.columns, model.types, strict=True)}
    return model.row(**filled)


def some_rows(parts: int) -> tuple[Rows, dict[str, list[Row]]]:
    """A row of every read model, that many parts, and the expected content of the tables."""
    numbers, rows = count(1), Rows()
    expected: dict[str, list[Row]] = {}
    for model in READ_MODELS:
        some = [a_row(model, numbers) for _ in range(parts if model.table == "table_parts" else 1)]
        getattr(rows, model.table).extend(some)
        expected[model.table] = some
    for model in READ_MODELS:
        places = [column for column in model.columns if column.endswith("position")]
        expected[model.table] = [row._replace(**{place: BEFORE + getattr(row, place) for place in places}) for row in expected[model.table]]
    # A part is closed after it; many parts are closed by a tombstone.
    expected["table_parts"] = [part._replace(valid_to=part.ordinal + 1) for part in expected["table_parts"]]
    rows.parts_closed = [ClosedParts(part.table_id, part.kind, part.ordinal + 1, [part.ordinal]) for part in rows.table_parts]
    many = ClosedParts(UUID(int=1), 2, 3, list(range(4, 5 + PARTS_CLOSED_INLINE_MAX)))
    rows.parts_closed.append(many)
    expected["part_tombstones"] = [(*many[:3], f"{{[4,{5 + PARTS_CLOSED_INLINE_MAX})}}")]
    return rows, expected


def written(connection: psycopg.Connection[Any], rows: Rows) -> dict[str, list[Row]]:
    """The content of the tables after writing the rows."""
    blobs: list[bytes] = []
    plain = orjson.dumps(rows.to_json(blobs)).decode()
    connection.execute("select icecore.write_rows(%s::jsonb, %s, %s, %s)", (plain, blobs, GENERATION, BEFORE), binary=True)
    found = {}
    for model in MODELS:
        select = model_sql("select {columns} from {table} where generation = %s order by {key}", model)
        found[model.table] = connection.execute(select, (GENERATION,)).fetchall()
    return found


def test_definitions_have_the_columns_of_the_database(connection: psycopg.Connection[Any]) -> None:
    """In the same order."""
    assert [] == differing_columns(connection)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("alter table icecore.views add column more text", ["views more"]),
        ("alter table icecore.tables rename column head to top", ["tables head", "tables top"]),
        ("alter table icecore.names alter column name drop not null", ["names name"]),
        ("alter table icecore.proposals alter column hook type bytea using hook::bytea", ["proposals hook"]),
    ],
)
def test_a_column_that_differs_would_be_named(connection: psycopg.Connection[Any], change: str, named: list[str]) -> None:
    """Negative control: an additional column, another name, nullability or type."""
    connection.execute(change.encode())
    assert named == differing_columns(connection)


@pytest.mark.parametrize("parts", [1, PARTS_AS_ROWS_MAX + 1])
def test_every_column_of_a_row_is_written(connection: psycopg.Connection[Any], parts: int) -> None:
    """By name. Positions follow the previous one, and parts are in either form."""
    rows, expected = some_rows(parts)
    found = written(connection, rows)
    assert sorted(expected) == sorted(found)
    for table, wanted in expected.items():
        assert sorted(map(tuple, wanted)) == sorted(found[table]), table


def test_parts_are_closed_by_their_whole_key(connection: psycopg.Connection[Any]) -> None:
    """Not other parts of the table with the same ordinal, nor those of another table or generation."""
    tables, rows = [UUID(int=1), UUID(int=2)], Rows()
    rows.table_parts = [PartRow(table, kind, ordinal, 1, None, None, b"") for table in tables for kind in (1, 2) for ordinal in (5, 6)]
    insert = "insert into icecore.table_parts (generation, table_id, kind, ordinal, valid_from, body) values (%s, %s, 1, 5, 1, '')"
    connection.execute(insert, (GENERATION + 1, tables[0]))
    rows.parts_closed = [ClosedParts(tables[0], 1, 9, [5])]
    written(connection, rows)
    closed = "select generation, table_id, kind, ordinal, valid_to from icecore.table_parts where valid_to is not null"
    assert [(GENERATION, tables[0], 1, 5, 9)] == connection.execute(closed).fetchall()


@pytest.mark.parametrize(
    ("parts", "there", "instead", "table"),
    [
        (1, "v_name.to_position := p_before", "v_name.to_position := 1", "names"),
        (1, "blobs[(r->>'document')::integer]", "''", "views"),
        (1, "p.snapshot_id, blobs[p.body]", "null, blobs[p.body]", "table_parts"),
        (PARTS_AS_ROWS_MAX + 1, "p.ordinal, (r->>'valid_from')", "p.ordinal, (r->>'kind')", "table_parts"),
        (1, "p.valid_to, p.ordinals", "p.kind, p.ordinals", "part_tombstones"),
    ],
)
def test_a_column_that_is_not_written_would_be_found(
    connection: psycopg.Connection[Any], parts: int, there: str, instead: str, table: str
) -> None:
    """Negative control of the test above."""
    (source,) = connection.execute("select pg_get_functiondef('icecore.write_rows'::regproc)").fetchone() or ("",)
    assert there in source
    connection.execute(source.replace(there, instead).encode())
    rows, expected = some_rows(parts)
    assert sorted(map(tuple, expected[table])) != sorted(written(connection, rows)[table])
