"""Writes projections/schema.json, the schema that the migrations create, with which `icecore verify` compares a database."""

import asyncio
import json
import tempfile
from pathlib import Path

from icecore.database.connection import connect
from icecore.embedded_postgres import embedded_postgres
from icecore.migrations.apply import apply_migrations
from icecore.projections.verify_schema import found_schema
from tests.servers.paths import ROOT


async def record(dsn: str) -> None:
    """`dsn` -- of an empty database."""
    await apply_migrations(dsn)
    async with await connect(dsn) as connection:
        schema = await found_schema(connection)
    (ROOT / "projections" / "schema.json").write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="icecore-schema-") as directory:
        Path(directory).chmod(0o755)
        with embedded_postgres(Path(directory)) as dsn:
            asyncio.run(record(dsn))
