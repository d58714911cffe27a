"""ICECORE_DATABASE_OWNER_URL is missing, names another database or another role: the message says what to set."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from icecore.exit_codes import ExitCode
from tests.fixtures.operator_commands import icecore

OWNER, SERVER = "ICECORE_DATABASE_OWNER_URL", "ICECORE_DATABASE_URL"
NO_SCHEMA = f"set {OWNER} to the URL of the database's owner, and run `icecore migrate`"


@dataclass(frozen=True)
class TwoRoles:
    """The URLs of the owner and the server role on an empty database of theirs, and of the owner on another one."""

    owner: str
    server: str
    elsewhere: str


@pytest.fixture
def roles(admin_dsn: str) -> Iterator[TwoRoles]:
    """As docs/how-to/database-roles.md creates them."""
    name = f"test_{secrets.token_hex(6)}"
    owner, server, elsewhere = f"{name}_owner", f"{name}_server", f"{name}_elsewhere"
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        for role in (owner, server):
            connection.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
        for database in (name, elsewhere):
            connection.execute(
                sql.SQL("create database {} owner {} template template0 strategy file_copy").format(*map(sql.Identifier, (database, owner)))
            )
        yield TwoRoles(*(make_conninfo(admin_dsn, dbname=d, user=u) for d, u in ((name, owner), (name, server), (elsewhere, owner))))
        for database in (name, elsewhere):
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(database)))
        for role in (owner, server):
            connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def said(*arguments: str, server: str, owner: str | None = None) -> str:
    """The message of a command that cannot use the database."""
    done = icecore(server, *arguments, **({} if owner is None else {OWNER: owner}))
    assert done.returncode in {ExitCode.DATABASE, ExitCode.USAGE}, done.stdout
    (message,) = done.stderr.splitlines()
    return message


@pytest.mark.parametrize("command", [("migrate",), ("serve", "--port", "0"), ("verify",), ("sinks",), ("worker",)])
def test_an_empty_database_of_a_server_role_needs_the_owner(roles: TwoRoles, command: tuple[str, ...]) -> None:
    """The migrations are not listed, and no right is to be granted."""
    message = said(*command, server=roles.server)
    assert NO_SCHEMA in message
    for other in ("0001_baseline", "GRANT"):
        assert other not in message


def test_an_empty_database_of_its_owner_needs_migrate(roles: TwoRoles) -> None:
    """Without any setting."""
    message = said("verify", server=roles.owner)
    assert "icecore: The database has no schema icecore yet: run `icecore migrate` first" in message
    assert "run `icecore migrate` first" in said("verify", server=roles.server, owner=roles.owner)


def test_an_owner_of_another_database_is_refused(roles: TwoRoles) -> None:
    """Before the other one is changed. By every command that uses the owner's URL."""
    different = f"{OWNER} and {SERVER} name different databases"
    for command in (("migrate",), ("serve", "--port", "0")):
        assert different in said(*command, server=roles.server, owner=roles.elsewhere)
    with psycopg.connect(roles.elsewhere) as connection:
        assert (None,) == connection.execute("select to_regnamespace('icecore')").fetchone()
    assert 0 == icecore(roles.server, "migrate", **{OWNER: roles.owner}).returncode
    for command in (("migrate",), ("rebuild",), ("rebuild", "--search")):
        assert different in said(*command, server=roles.server, owner=roles.elsewhere)
    assert f"failed   role: {different}" in icecore(roles.server, "doctor", **{OWNER: roles.elsewhere}).stdout


def test_an_owner_of_a_database_that_is_not_there_is_to_be_that_of_the_server(roles: TwoRoles) -> None:
    """Another database is not to be created."""
    message = said("migrate", server=roles.server, owner=make_conninfo(roles.owner, dbname="nowhere"))
    assert f"The database of {OWNER} cannot be reached: " in message
    assert f"it must be the database of {SERVER}" in message
    assert "CREATE DATABASE" not in message


def test_exchanged_urls_are_named(roles: TwoRoles) -> None:
    """Also on a database with the schema. Following the message ends the mistake."""
    assert f"but that of {SERVER} may: exchange the two URLs" in said("migrate", server=roles.owner, owner=roles.server)
    assert 0 == icecore(roles.server, "migrate", **{OWNER: roles.owner}).returncode
    message = said("migrate", server=roles.owner, owner=roles.server)
    assert f"The role of {SERVER} owns tables of the schema icecore: set the URL of the server role there" in message


def test_a_role_that_does_not_own_the_schema_is_no_owner(roles: TwoRoles) -> None:
    """The message does not name the setting as what is missing."""
    for command in (("migrate",), ("serve", "--port", "0")):
        message = said(*command, server=roles.server, owner=roles.server)
        assert f"The role of {OWNER} may not set up the schema icecore" in message
        assert "set the URL of the role that owns the schema, or the database if it has no schema yet" in message
    assert 0 == icecore(roles.server, "migrate", **{OWNER: roles.owner}).returncode
    message = said("rebuild", server=roles.server, owner=roles.server)
    assert f"A rebuild needs the owner of the schema, and the role of {OWNER} is not its owner" in message
    assert f"A rebuild needs the owner of the schema: set its URL in {OWNER}" in said("rebuild", server=roles.server)
