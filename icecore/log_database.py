"""Opens the database of a command: the one in the settings, or the embedded Postgres of the data folder."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from pydantic import SecretStr

from .data_folder import DataFolder
from .database_url import database_address
from .domain.client_errors import client_error_text
from .embedded_postgres import EmbeddedPostgresError, embedded_postgres, serving_dsn
from .exit_codes import CommandFailed, ExitCode
from .migrations.apply import MigrationError, apply_migrations, pending_migrations
from .migrations.serving_role import grant_serving
from .server_check import CheckedServer, UnfitServerError, check_server
from .settings import Settings


@contextmanager
def opened_database(settings: Settings, *, make: bool = False) -> Iterator[Settings]:
    """The settings with `database_url` (and, for the embedded Postgres, the key) filled in, for the length of the block.

    make -- create an empty log in a data folder that has none. Otherwise such a folder is refused.

    Raises CommandFailed if the database is unavailable, also within the block.
    """
    try:
        if settings.database_url is not None:
            yield settings
            return
        folder = DataFolder.make(settings.data_dir) if make else DataFolder.existing(settings.data_dir)
        with embedded_postgres(folder.path, state_directory=settings.embedded_state_dir) as owner_dsn:
            settings = embedded_settings(settings, folder, owner_dsn)
            yield settings
    except EmbeddedPostgresError as error:
        raise CommandFailed(ExitCode.DATABASE, str(error)) from None
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
    """Checks the database server. Raises CommandFailed if it is unreachable or unfit."""
    try:
        return await check_server(settings.dsn, unsafe_durability=settings.unsafe_durability)
    except (UnfitServerError, psycopg.Error) as error:
        raise _unusable(error, settings) from None


async def prepare_database(settings: Settings) -> list[str]:
    """Checks the server and applies migrations and the serving role's rights. Returns the applied migrations."""
    await check_database(settings)
    try:
        applied = await apply_migrations(settings.owner_dsn)
        if settings.database_owner_url is not None:
            await grant_serving(settings.owner_dsn, settings.dsn)
        return applied
    except psycopg.errors.InsufficientPrivilege as error:
        setting, dsn = ("DATABASE_URL", settings.dsn) if settings.database_owner_url is None else ("DATABASE_OWNER_URL", settings.owner_dsn)
        reason = client_error_text(error, database_address(dsn))
        raise CommandFailed(
            ExitCode.DATABASE,
            f"The role of ICECORE_{setting} may not set up the schema icecore ({reason}): run GRANT CREATE ON DATABASE … TO …, "
            "or, where the schema is there already, give its owner's URL in ICECORE_DATABASE_OWNER_URL",
        ) from None
    except (MigrationError, psycopg.Error) as error:
        raise _unusable(error, settings) from None


async def require_schema(settings: Settings) -> None:
    """Refuses a database whose schema is not that of this version. Commands that only read do not migrate."""
    try:
        pending = await pending_migrations(settings.dsn)
    except (MigrationError, psycopg.Error) as error:
        raise _unusable(error, settings) from None
    if pending:
        raise CommandFailed(ExitCode.DATABASE, f"The database lacks {', '.join(pending)}: run `icecore migrate` first")


def _unusable(error: Exception, settings: Settings) -> CommandFailed:
    if not isinstance(error, psycopg.Error):
        return CommandFailed(ExitCode.DATABASE, str(error).strip())
    reason = client_error_text(error, database_address(settings.dsn))
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return CommandFailed(ExitCode.DATABASE, f"The server role has no rights yet ({reason}): run `icecore migrate` first")
    if isinstance(error, psycopg.OperationalError):
        return CommandFailed(ExitCode.DATABASE, f"The database cannot be reached: {reason}")
    return CommandFailed(ExitCode.DATABASE, f"The database reports an error: {reason}")
