"""The key that encrypts the credentials of warehouses, from the settings."""

import shlex
from pathlib import Path

import psycopg
import structlog

from .data_folder import KEY_FILE
from .database.connection import CONNECT_TIMEOUT_SECONDS, connect
from .database.connections import Connection
from .security.secrets import SecretKey, SecretKeyError, SecretStore, count_secrets
from .settings import Settings, SettingsError

_NEW_KEY = "openssl rand -base64 32 makes a key"

_log = structlog.get_logger("icecore.secret_keys")


def secret_store(settings: Settings) -> SecretStore:
    """The secret store of the settings: one key to encrypt, and previous ones to decrypt.

    Raises SettingsError for a missing or malformed key. There is no default, because all servers of one log need the same key.
    """
    return SecretStore(
        _key(settings), [_from_file("ICECORE_SECRET_KEY_FILES_PREVIOUS", each) for each in settings.secret_key_files_previous]
    )


def lacks_key(settings: Settings) -> bool:
    """Whether the key would be read from the data folder, and its file is missing."""
    return _uses_own_file(settings) and not (settings.data_dir / KEY_FILE).exists()


def stored_credentials(owner_dsn: str) -> int:
    """The number of stored credentials, which need the key that encrypted them. 0 if the database has no schema yet."""
    with psycopg.connect(owner_dsn, connect_timeout=CONNECT_TIMEOUT_SECONDS, autocommit=True) as connection:
        return count_secrets(connection)


async def check_secret_keys(settings: Settings, secrets: SecretStore) -> None:
    """Raises SettingsError if the keys of `secrets` decrypt none of the stored credentials. Logs a warning if they decrypt only some."""
    async with await connect(settings.dsn, application_name="icecore-check") as connection:
        unreadable = await count_unreadable(connection, secrets)
    if unreadable:
        _log.warning("secret_key_missing", unreadable=unreadable, setting="ICECORE_SECRET_KEY_FILES_PREVIOUS")


async def count_unreadable(connection: Connection, secrets: SecretStore) -> int:
    """The number of stored credentials that the keys of `secrets` do not decrypt. Raises SettingsError if they decrypt none."""
    unreadable, stored = await secrets.count_unreadable(connection)
    if unreadable and unreadable == stored:
        raise SettingsError(
            "The secret key decrypts no stored credential of a warehouse: another key encrypted them. Set that key in "
            "ICECORE_SECRET_KEY_FILE or ICECORE_SECRET_KEY, or its file in ICECORE_SECRET_KEY_FILES_PREVIOUS if the key was changed. If it "
            "is lost, enter each credential again with `icecore warehouse credential --key-lost`"
        )
    return unreadable


def _key(settings: Settings) -> SecretKey:
    if settings.secret_key is not None:
        try:
            return SecretKey.from_base64(settings.secret_key.get_secret_value())
        except SecretKeyError as error:
            raise SettingsError(f"ICECORE_SECRET_KEY: {error}; {_NEW_KEY}") from None
    if lacks_key(settings):
        raise SettingsError(_missing(settings.data_dir / KEY_FILE))
    if _uses_own_file(settings):
        return _from_file(
            str(settings.data_dir / KEY_FILE), settings.data_dir / KEY_FILE, "; restore it from the backup of the data folder"
        )
    if settings.secret_key_file is not None:
        return _from_file("ICECORE_SECRET_KEY_FILE", settings.secret_key_file, f"; {_NEW_KEY}")
    raise SettingsError(
        "With your own database, Icecore needs a key to encrypt the credentials of warehouses: 32 random bytes in base64 "
        "(openssl rand -base64 32), the same for every server of the database, in ICECORE_SECRET_KEY_FILE or ICECORE_SECRET_KEY"
    )


def _uses_own_file(settings: Settings) -> bool:
    """Whether the key is read from the file of the embedded database's data folder, whose path is absolute and no secret."""
    own = settings.data_dir / KEY_FILE
    return settings.secret_key is None and settings.secret_key_file == own and own.is_absolute()


def _missing(file: Path) -> str:
    return (
        f"The key file {file} is missing, which decrypts the stored credentials of warehouses: restore it from the backup of the data "
        "folder, or set the key in ICECORE_SECRET_KEY_FILE or ICECORE_SECRET_KEY. If the key is lost, make a new one (openssl rand "
        f"-base64 32 > {shlex.quote(str(file))}) and enter each credential again: icecore warehouse credential WAREHOUSE --credential JSON "
        "--key-lost"
    )


def _from_file(name: str, path: Path, advice: str = "") -> SecretKey:
    """name -- what errors name: the setting, because an operator may have set the key itself as the path."""
    try:
        return SecretKey.from_file(path)
    except SecretKeyError as error:
        raise SettingsError(f"{name}: {error}{advice}") from None
    except OSError as error:
        raise SettingsError(f"{name}: the file cannot be read: {error.strerror}") from None
