"""A Postgres without a free connection is no unreachable one: commands say which limit is reached."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from icecore.database_url import database_address
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.log_database import opened_database, require_schema
from icecore.settings import Settings
from tests.fixtures.operator_commands import icecore
from tests.integration.test_serving_role import serving

__all__ = ["serving"]

ROLE = ("too many connections for role", "raise the limit of the role (ALTER ROLE … CONNECTION LIMIT …)")
DATABASE = ("too many connections for database", "raise the limit of the database (ALTER DATABASE … CONNECTION LIMIT …)")
POSTGRES = "close some, or raise max_connections of Postgres"


def message(reason: str, advice: str, dsn: str) -> str:
    return f"The database refused the connection, because it has too many: {reason} at {database_address(dsn)}; {advice}"


@pytest.fixture(params=["role", "database"])
def limited(request: pytest.FixtureRequest, database: str, serving: str, admin_dsn: str) -> Iterator[str]:
    """What has no connection left."""
    name = psycopg.conninfo.conninfo_to_dict(serving)["user" if request.param == "role" else "dbname"]
    alter = sql.SQL("alter " + request.param + " {} connection limit {}")
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(alter.format(sql.Identifier(str(name)), 0))
        yield request.param
        connection.execute(alter.format(sql.Identifier(str(name)), -1))


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["verify"]])
def test_a_limit_of_the_role_or_the_database_is_named(limited: str, serving: str, command: list[str]) -> None:
    refused = icecore(serving, *command)
    assert ExitCode.DATABASE == refused.returncode
    assert message(*(ROLE if limited == "role" else DATABASE), serving) in refused.stderr


def test_the_doctor_names_the_limit(limited: str, serving: str) -> None:
    said = icecore(serving, "doctor").stdout
    assert f"failed   database: {message(*(ROLE if limited == 'role' else DATABASE), serving)}" in said.splitlines()


@pytest.mark.parametrize(
    ("text", "reason", "advice"),
    [
        ("FATAL:  sorry, too many clients already", "too many clients", POSTGRES),
        (
            "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "remaining connection slots are reserved",
            POSTGRES,
        ),
        ("FATAL:  no more connections allowed (max_client_conn)", "no more connections allowed", "close some, or raise max_client_conn of"),
    ],
)
async def test_a_limit_of_postgres_or_the_pooler_is_named(monkeypatch: pytest.MonkeyPatch, text: str, reason: str, advice: str) -> None:
    """Postgres 16 words the second one so, others with more or fewer attributes of the role."""

    async def fail(_: str) -> list[str]:
        raise psycopg.OperationalError(f'connection failed: connection to server at "127.0.0.1", port 1 failed: {text}')

    monkeypatch.setattr("icecore.log_database.pending_migrations", fail)
    dsn = "postgresql://user:hunter2@127.0.0.1:1/catalog"
    settings = Settings(database_url=SecretStr(dsn))
    with pytest.raises(CommandFailed) as refused, opened_database(settings):
        await require_schema(settings)
    assert str(refused.value).startswith(message(reason, advice, dsn))
    assert "hunter2" not in str(refused.value)
