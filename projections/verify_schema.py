"""Verifies that functions, tables, columns, triggers, constraints and indexes are those of the migrations."""

import json
import re
from collections.abc import Collection, Mapping
from importlib.resources import files

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..migrations.apply import load_functions, load_migrations
from .verify_report import VerifyReport

_SQL = named_sql("icecore.projections", "verify_schema.sql")

_FUNCTION = re.compile(r"^create (?:or replace )?function icecore\.(\w+)\((.*?)\$\$(.*?)\$\$", re.MULTILINE | re.DOTALL)
_FLAG = re.compile(r"\b(?:immutable|stable|strict|leakproof|parallel (?:safe|restricted))\b")
_LANGUAGE = re.compile(r"\blanguage (\w+)")
_SETTING = re.compile(r"^set (\w+) = (.+)$", re.MULTILINE)

Schema = dict[str, dict[str, str]]
"""Definitions by Postgres catalog and name."""


async def check_schema(connection: Connection, report: VerifyReport, admin_roles: Collection[str]) -> None:
    """Reports objects of the schema that are missing, changed or not from a migration; ignores vacuum and storage settings of tables.

    It also reports grants and owners that permit writing the log without `append`.
    """
    functions = await (await connection.execute(_SQL["functions"])).fetchall()
    found = {f"function {name}": tuple(rest) for name, *rest in functions}
    _compare("pg_proc", carried_functions(), found, report)
    recorded, actual = recorded_schema(), await found_schema(connection)
    for catalog in sorted(recorded.keys() | actual.keys()):
        _compare(catalog, recorded.get(catalog, {}), actual.get(catalog, {}), report)
    for catalog, key, column, role, rights in await (await connection.execute(_SQL["rights"])).fetchall():
        report.add(catalog, key, column, None, f"{role}: {rights}")
    for role, why in await (await connection.execute(_SQL["roles"])).fetchall():
        if role in admin_roles:
            report.notes.append(f"{role} may write to the whole log: {why}")
        else:
            report.add("pg_roles", role, "rights", None, why)
    for name, owner, expected in await (await connection.execute(_SQL["owners"])).fetchall():
        report.add("pg_class", name, "owner", expected, owner)


async def check_migrations(connection: Connection, report: VerifyReport) -> None:
    """Checks that the migrations recorded as applied are those of this code."""
    recorded = await (await connection.execute(named_sql("icecore.migrations", "apply.sql")["recorded"])).fetchall()
    found = {f"{number:04d}_{name}": checksum for number, name, checksum, _ in recorded}
    _compare("migrations", {str(migration): migration.checksum for migration in load_migrations()}, found, report)


def recorded_schema() -> Schema:
    """The schema that the migrations create, from the file that `python -m tests.servers.record_schema` writes."""
    schema: Schema = json.loads(files("icecore.projections").joinpath("schema.json").read_text(encoding="utf-8"))
    return schema


async def found_schema(connection: Connection) -> Schema:
    """The schema of the database."""
    schema: Schema = {}
    for catalog, name, definition in await (await connection.execute(_SQL["schema"])).fetchall():
        schema.setdefault(catalog, {})[name] = definition
    return schema


def carried_functions() -> dict[str, tuple[object, ...]]:
    """For each function: its newest body, whether it is SECURITY DEFINER, its settings, its language and its explicit flags."""
    carried: dict[str, tuple[object, ...]] = {}
    for text in (*(migration.text for migration in load_migrations()), load_functions()):
        for name, header, body in _FUNCTION.findall(text):
            settings = ", ".join(f"{setting}={value}" for setting, value in _SETTING.findall(header))
            flags = " ".join([*_LANGUAGE.findall(header), *_FLAG.findall(header)])
            carried[f"function {name}"] = (body, "security definer" in header, settings, flags)
    return carried


def _compare(catalog: str, expected: Mapping[str, object], found: Mapping[str, object], report: VerifyReport) -> None:
    for key in sorted(expected.keys() | found.keys()):
        if key not in expected or key not in found:
            report.add(catalog, key, None, expected.get(key), found.get(key))
        elif expected[key] != found[key]:
            report.add(catalog, key, "definition", expected[key], found[key])
