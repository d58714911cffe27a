"""Opens the database of a command: the one in the settings, or the embedded Postgres of the data folder."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from pydantic import SecretStr

from .data_folder import DataFolder, embedded_failure
from .database_url import database_address
from .domain.client_errors import client_error_text
from .embedded_postgres import EmbeddedPostgresError, embedded_postgres, serving_dsn
from .exit_codes import CommandFailed, ExitCode
from .migrations.apply import MigrationError, apply_migrations, load_migrations, pending_migrations
from .migrations.serving_role import grant_serving
from .secret_keys import lacks_key, stored_credentials
from .server_check import (
    CheckedServer,
    UnfitServerError,
    check_owner,
    check_primary,
    check_server,
    check_server_for_reads,
    check_sessions,
    may_set_up,
)
from .settings import Settings

_ADVICE = {
    "password authentication failed": "correct the user or the password in",
    "no password supplied": "give the password in",
    "database does not exist": "create it with CREATE DATABASE, or correct its name in",
    "role does not exist": "create it with CREATE ROLE … LOGIN, or correct the user in",
}
"""What to do about an error that the URL of a database may have caused."""
_OWNERS_ADVICE = {"database does not exist": "it must be the database of ICECORE_DATABASE_URL: correct its name in"}
"""The same for the owner's URL, where it differs."""
_SET_OWNER = "set ICECORE_DATABASE_OWNER_URL to the URL of the database's owner, and run `icecore migrate`"
_TOO_MANY = {
    "too many connections for role": "raise the limit of the role (ALTER ROLE … CONNECTION LIMIT …)",
    "too many connections for database": "raise the limit of the database (ALTER DATABASE … CONNECTION LIMIT …)",
    "too many clients": "close some, or raise max_connections of Postgres",
    "remaining connection slots are reserved": "close some, or raise max_connections of Postgres",
    "no more connections allowed": "close some, or raise max_client_conn of the pooler",
}
"""What to do about a limit on connections. libpq reports no SQLSTATE for a connection that was refused."""


@contextmanager
def opened_database(settings: Settings, *, make: bool = False, makes_key: bool = True) -> Iterator[Settings]:
    """The settings with `database_url` (and, for the embedded Postgres, the key) filled in, for the length of the block.

    make -- create an empty log in a data folder that has none. Otherwise such a folder is refused.
    makes_key -- create the data folder's key if it is missing and the database holds no credential.

    Raises CommandFailed if the database is unavailable, also within the block.
    """
    try:
        if settings.database_url is not None:
            yield settings
            return
        folder = DataFolder.make(settings.data_dir) if make else DataFolder.existing(settings.data_dir)
        was_served = folder.was_served()
        with embedded_postgres(folder.path, state_directory=settings.embedded_state_dir, create=not was_served) as owner_dsn:
            if make:
                folder.write_path()
            settings = embedded_settings(settings, folder, owner_dsn)
            if makes_key and lacks_key(settings) and stored_credentials(owner_dsn) == 0:
                folder.make_secret_key()
            yield settings
    except EmbeddedPostgresError as error:
        raise embedded_failure(error) from None
    except psycopg.errors.ReadOnlySqlTransaction:
        raise CommandFailed(
            ExitCode.DATABASE,
            "This Postgres is read-only and accepts no writes: connect to a primary, or reset default_transaction_read_only for this role "
            "and database",
        ) from None
    except psycopg.OperationalError as error:
        raise _unusable(error, settings) from None


def embedded_settings(settings: Settings, folder: DataFolder, owner_dsn: str) -> Settings:
    """`settings` for the embedded database, with the folder's own key unless they have one."""
    found: dict[str, object] = {
        "database_url": SecretStr(serving_dsn(owner_dsn)),
        "database_owner_url": SecretStr(owner_dsn),
        "data_dir": folder.path,
    }
    if settings.secret_key is None and settings.secret_key_file is None:
        found["secret_key_file"] = folder.secret_key_file()
    return settings.model_copy(update=found)


async def check_database(settings: Settings) -> CheckedServer:
    """Checks the database server for a program that writes. Raises CommandFailed if it is unreachable or unfit."""
    try:
        return await check_server(settings.dsn, settings.pooler_dsn, unsafe_durability=settings.unsafe_durability)
    except (UnfitServerError, psycopg.Error) as error:
        raise _unusable(error, settings) from None


async def require_sessions(settings: Settings) -> None:
    """Refuses a pooler that is not in session mode, for a program that holds locks but does not prepare the database."""
    try:
        await check_sessions(settings.dsn)
    except (UnfitServerError, psycopg.Error) as error:
        raise _unusable(error, settings) from None


async def prepare_database(settings: Settings) -> list[str]:
    """Checks the server and applies migrations and the serving role's rights. Returns the applied migrations."""
    await check_database(settings)
    await require_same_database(settings)
    try:
        applied = await apply_migrations(settings.owner_dsn)
        if settings.database_owner_url is not None:
            await grant_serving(settings.owner_dsn, settings.dsn)
        return applied
    except psycopg.errors.InsufficientPrivilege as error:
        advice = await _owner_advice(settings)
        reason = client_error_text(error, database_address(settings.owner_dsn))
        raise CommandFailed(
            ExitCode.DATABASE, f"The role of {_owner_setting(settings)} may not set up the schema icecore ({reason}){advice}"
        ) from None
    except (MigrationError, psycopg.Error) as error:
        raise _unusable(error, settings, as_owner=True) from None


async def require_same_database(settings: Settings) -> None:
    """Refuses an owner's URL that names another database than that of the servers."""
    if settings.database_owner_url is None:
        return
    try:
        await check_owner(settings.dsn, settings.owner_dsn)
    except (UnfitServerError, psycopg.Error) as error:
        raise _unusable(error, settings, as_owner=True) from None


async def _owner_advice(settings: Settings) -> str:
    """What to do if the role of `owner_dsn` may not set up the schema."""
    if settings.database_owner_url is None:
        return f": {_SET_OWNER}"
    if await may_set_up(settings.dsn):
        return ", but that of ICECORE_DATABASE_URL may: exchange the two URLs"
    return ": set the URL of the role that owns the schema, or the database if it has no schema yet"


def _owner_setting(settings: Settings) -> str:
    """The setting that `owner_dsn` is from."""
    return "ICECORE_DATABASE_URL" if settings.database_owner_url is None else "ICECORE_DATABASE_OWNER_URL"


@contextmanager
def owner_required(settings: Settings, work: str) -> Iterator[None]:
    """Raises CommandFailed if the block, which connects with `owner_dsn`, cannot connect or may not do its work."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege:
        given = settings.database_owner_url is not None
        advice = ", and the role of ICECORE_DATABASE_OWNER_URL is not its owner" if given else ": set its URL in ICECORE_DATABASE_OWNER_URL"
        raise CommandFailed(ExitCode.USAGE, f"{work} needs the owner of the schema{advice}") from None
    except psycopg.OperationalError as error:
        raise _unusable(error, settings, as_owner=True) from None


async def check_read_only_database(settings: Settings) -> CheckedServer:
    """As `check_database`, for a read-only server, which may read a standby."""
    try:
        return await check_server_for_reads(settings.dsn, settings.pooler_dsn)
    except (UnfitServerError, psycopg.Error) as error:
        raise _unusable(error, settings) from None


async def require_readable(settings: Settings) -> None:
    """Refuses a database that a read-only server cannot read. Writes nothing."""
    await check_read_only_database(settings)
    await require_schema(settings)


async def require_writable(settings: Settings) -> None:
    """As `require_schema`, for commands that write: also refuses a standby."""
    try:
        await check_primary(settings.dsn)
    except (UnfitServerError, psycopg.Error) as error:
        raise _unusable(error, settings) from None
    await require_schema(settings)


async def require_schema(settings: Settings) -> None:
    """Refuses a database whose schema is not that of this version. Commands that only read do not migrate."""
    try:
        pending = await pending_migrations(settings.dsn)
        if len(pending) == len(load_migrations()):
            can_migrate = settings.database_owner_url is not None or await may_set_up(settings.dsn)
            advice = "run `icecore migrate` first" if can_migrate else _SET_OWNER
            raise CommandFailed(ExitCode.DATABASE, f"The database has no schema icecore yet: {advice}")
    except (MigrationError, psycopg.Error) as error:
        raise _unusable(error, settings) from None
    if pending:
        raise CommandFailed(ExitCode.DATABASE, f"The database lacks {', '.join(pending)}: run `icecore migrate` first")


def _unusable(error: Exception, settings: Settings, *, as_owner: bool = False) -> CommandFailed:
    if not isinstance(error, psycopg.Error):
        return CommandFailed(ExitCode.DATABASE, str(error).strip())
    as_owner = as_owner and settings.database_owner_url is not None
    setting = "ICECORE_DATABASE_OWNER_URL" if as_owner else "ICECORE_DATABASE_URL"
    reason = client_error_text(error, database_address(settings.owner_dsn if as_owner else settings.dsn))
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return CommandFailed(ExitCode.DATABASE, f"The server role has no privileges yet ({reason}): run `icecore migrate` first")
    if isinstance(error, psycopg.OperationalError):
        database = f"The database of {setting}" if as_owner else "The database"
        known = _ADVICE | _OWNERS_ADVICE if as_owner else _ADVICE
        if too_many := next((text for phrase, text in _TOO_MANY.items() if phrase in reason), ""):
            message = f"{database} refused the connection, because it has too many: {reason}; {too_many}"
            return CommandFailed(ExitCode.DATABASE, message)
        advice = next((f"; {text} {setting}" for phrase, text in known.items() if phrase in reason), "")
        return CommandFailed(ExitCode.DATABASE, f"{database} cannot be reached: {reason}{advice}")
    return CommandFailed(ExitCode.DATABASE, f"The database reports an error: {reason}")
