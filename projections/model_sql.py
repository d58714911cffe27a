"""SQL statements for any read model, from its definition."""

from typing import LiteralString

from psycopg import sql

from ..domain.read_models.definitions import ReadModel


def model_sql(block: LiteralString, model: ReadModel) -> sql.Composed:
    """`block` with the model's `{table}`, `{columns}` without `generation`, `{key}`, and `{owner}`: the first column."""
    columns = [sql.Identifier(column) for column in model.columns]
    comma = sql.SQL(", ")
    return sql.SQL(block).format(
        table=sql.Identifier("icecore", model.table),
        columns=comma.join(columns),
        key=comma.join(columns[: model.key_columns]),
        owner=columns[0],
    )
