"""Verification of the schema: its functions, triggers, constraints and unique indexes are those that the migrations make."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from migrations.apply import load_migrations
from migrations.named_sql import named_sql
from projections.postgres import Connection

if TYPE_CHECKING:
    from projections.verify import VerifyReport

_SQL = named_sql("projections", "verify_schema.sql")

_FUNCTION = re.compile(r"^create (?:or replace )?function icecore\.(\w+)\((.*?)\$\$(.*?)\$\$", re.MULTILINE | re.DOTALL)
_SETTING = re.compile(r"^set (\w+) = (.+)$", re.MULTILINE)

# Table, name, definition as Postgres 14 and later write it; a migration that adds or changes one changes its line.
CONSTRAINTS = (
    (
        "claims",
        "claims_kind_check",
        "CHECK ((kind = ANY (ARRAY['warehouse'::text, 'namespace'::text, 'tabular'::text, 'proposal'::text])))",
    ),
    ("claims", "claims_pkey", "PRIMARY KEY (kind, scope, key)"),
    ("commands", "commands_pkey", "PRIMARY KEY (command_id)"),
    ("events", "events_append_only", "BEFORE DELETE OR UPDATE ON events FOR EACH ROW EXECUTE FUNCTION refuse_change()"),
    ("events", "events_event_id_idx", "CREATE UNIQUE INDEX events_event_id_idx ON events USING btree (event_id)"),
    ("events", "events_no_truncate", "BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"),
    ("events", "events_notification_id_check", "CHECK ((notification_id > 0))"),
    ("events", "events_notification_id_idx", "CREATE UNIQUE INDEX events_notification_id_idx ON events USING btree (notification_id)"),
    ("events", "events_originator_version_check", "CHECK ((originator_version > 0))"),
    ("events", "events_pkey", "PRIMARY KEY (originator_id, originator_version)"),
    ("idempotency", "idempotency_pkey", "PRIMARY KEY (project_id, actor, key)"),
    ("location_claims", "location_claims_pkey", "PRIMARY KEY (key)"),
    ("metrics_reports", "metrics_reports_pkey", "PRIMARY KEY (report_id)"),
    ("migrations", "migrations_pkey", "PRIMARY KEY (number)"),
    ("names", "names_kind_check", "CHECK ((kind = ANY (ARRAY['warehouse'::text, 'namespace'::text, 'table'::text, 'view'::text])))"),
    (
        "names",
        "names_now_idx",
        "CREATE UNIQUE INDEX names_now_idx ON names USING btree (generation, parent_id, kind, name_key) WHERE (to_position IS NULL)",
    ),
    ("names", "names_pkey", "PRIMARY KEY (generation, object_id, from_position)"),
    ("namespaces", "namespaces_pkey", "PRIMARY KEY (generation, namespace_id, version)"),
    ("namespaces", "namespaces_status_check", "CHECK ((status = ANY (ARRAY['live'::text, 'dropped'::text])))"),
    ("old_metadata_files", "old_metadata_files_pkey", "PRIMARY KEY (key)"),
    ("part_tombstones", "part_tombstones_pkey", "PRIMARY KEY (generation, table_id, kind, valid_to)"),
    ("proposals", "proposals_pkey", "PRIMARY KEY (generation, proposal_id, version)"),
    (
        "proposals",
        "proposals_status_check",
        "CHECK ((status = ANY (ARRAY['open'::text, 'approved'::text, 'rejected'::text, 'expired'::text, 'stale'::text])))",
    ),
    ("read_models", "read_models_one_check", "CHECK (one)"),
    ("read_models", "read_models_pkey", "PRIMARY KEY (one)"),
    ("secrets", "secrets_check", "CHECK (((destroyed_at IS NULL) = (ciphertext IS NOT NULL)))"),
    ("secrets", "secrets_check1", "CHECK (((nonce IS NULL) = (ciphertext IS NULL)))"),
    ("secrets", "secrets_nonce_check", "CHECK ((octet_length(nonce) = 12))"),
    ("secrets", "secrets_pkey", "PRIMARY KEY (id)"),
    ("secrets", "secrets_version_check", "CHECK ((version >= 1))"),
    ("sink_replays", "sink_replays_check", "CHECK (((from_position >= 1) AND (to_position >= from_position)))"),
    ("sink_replays", "sink_replays_pkey", "PRIMARY KEY (replay_id)"),
    ("sink_skips", "sink_skips_append_only", "BEFORE DELETE OR UPDATE ON sink_skips FOR EACH ROW EXECUTE FUNCTION refuse_change()"),
    ("sink_skips", "sink_skips_pkey", 'PRIMARY KEY (sink, "position")'),
    ("sink_skips", "sink_skips_reason_check", "CHECK ((reason <> ''::text))"),
    ("sinks", "sinks_pkey", "PRIMARY KEY (name)"),
    ("staged_parts", "staged_parts_pkey", "PRIMARY KEY (table_id)"),
    ("table_parts", "table_parts_pkey", "PRIMARY KEY (generation, table_id, kind, ordinal)"),
    ("tables", "tables_pkey", "PRIMARY KEY (generation, table_id, version)"),
    ("tables", "tables_status_check", "CHECK ((status = ANY (ARRAY['live'::text, 'dropped'::text, 'purging'::text, 'purged'::text])))"),
    ("views", "views_pkey", "PRIMARY KEY (generation, view_id, version)"),
    ("views", "views_status_check", "CHECK ((status = ANY (ARRAY['live'::text, 'dropped'::text])))"),
    ("warehouses", "warehouses_pkey", "PRIMARY KEY (generation, warehouse_id, version)"),
)


async def check_schema(connection: Connection, report: "VerifyReport") -> None:
    """Reports every function, trigger, constraint and unique index of the schema that is missing, changed or not from a migration.

    Also tables that are not written to the WAL, and rights and owners by which others than `append` could write the log.
    """
    functions = await (await connection.execute(_SQL["functions"])).fetchall()
    found: dict[str, tuple[object, ...]] = {f"function {name}": tuple(rest) for name, *rest in functions}
    _compare("pg_proc", carried_functions(), found, report)
    constraints = await (await connection.execute(_SQL["constraints"])).fetchall()
    _compare("pg_constraint", _by_name(CONSTRAINTS), _by_name(constraints), report)
    for (table,) in await (await connection.execute(_SQL["unlogged"])).fetchall():
        report.add("pg_class", table, "relpersistence", "permanent", "unlogged")
    for table, role, rights in await (await connection.execute(_SQL["rights"])).fetchall():
        report.add("pg_class", table, "relacl", None, f"{role}: {rights}")
    for name, owner, expected in await (await connection.execute(_SQL["owners"])).fetchall():
        report.add("pg_class", name, "owner", expected, owner)


def _by_name(constraints: Sequence[tuple[str, ...]]) -> dict[str, tuple[object, ...]]:
    return {f"{table} {name}": (definition,) for table, name, definition in constraints}


def carried_functions() -> dict[str, tuple[object, ...]]:
    """Of each function the newest text, whether it has its owner's rights, and its settings."""
    carried: dict[str, tuple[object, ...]] = {}
    for migration in load_migrations():
        for name, header, body in _FUNCTION.findall(migration.text):
            settings = ", ".join(f"{setting}={value}" for setting, value in _SETTING.findall(header))
            carried[f"function {name}"] = (body, "security definer" in header, settings)
    return carried


def _compare(catalog: str, expected: dict[str, tuple[object, ...]], found: dict[str, tuple[object, ...]], report: "VerifyReport") -> None:
    for key in sorted(expected.keys() | found.keys()):
        if key not in expected or key not in found:
            report.add(catalog, key, None, expected.get(key), found.get(key))
        elif expected[key] != found[key]:
            report.add(catalog, key, "definition", expected[key], found[key])
