"""The key that encrypts the credentials of warehouses, from the settings."""

from pathlib import Path

import structlog

from .database.connection import connect
from .security.secrets import SecretKey, SecretKeyError, SecretStore
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


async def check_secret_keys(settings: Settings) -> None:
    """Raises SettingsError if the keys decrypt none of the stored credentials. Logs a warning if they decrypt only some."""
    async with await connect(settings.dsn, application_name="icecore-check") as connection:
        unreadable, stored = await secret_store(settings).count_unreadable(connection)
    if unreadable and unreadable == stored:
        raise SettingsError(
            "The secret key decrypts no stored credential of a warehouse: another key encrypted them. Set that key in "
            "ICECORE_SECRET_KEY_FILE or ICECORE_SECRET_KEY, or its file in ICECORE_SECRET_KEY_FILES_PREVIOUS if the key was changed"
        )
    if unreadable:
        _log.warning("secret_key_missing", credentials=unreadable, setting="ICECORE_SECRET_KEY_FILES_PREVIOUS")


def _key(settings: Settings) -> SecretKey:
    if settings.secret_key is not None:
        try:
            return SecretKey.from_base64(settings.secret_key.get_secret_value())
        except SecretKeyError as error:
            raise SettingsError(f"ICECORE_SECRET_KEY: {error}; {_NEW_KEY}") from None
    if settings.secret_key_file is not None:
        return _from_file("ICECORE_SECRET_KEY_FILE", settings.secret_key_file, f"; {_NEW_KEY}")
    raise SettingsError(
        "With your own database, Icecore needs a key to encrypt the credentials of warehouses: 32 random bytes in base64 "
        "(openssl rand -base64 32), the same for every server of the database, in ICECORE_SECRET_KEY_FILE or ICECORE_SECRET_KEY"
    )


def _from_file(setting: str, path: Path, advice: str = "") -> SecretKey:
    """The path is left out of errors, because an operator may have set the key itself there."""
    try:
        return SecretKey.from_file(path)
    except SecretKeyError as error:
        raise SettingsError(f"{setting}: {error}{advice}") from None
    except OSError as error:
        raise SettingsError(f"{setting}: the file cannot be read: {error.strerror}") from None
