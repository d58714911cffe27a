"""The key that encrypts the credentials of warehouses, from the settings."""

import structlog

from .database.connection import connect
from .security.secrets import SecretKey, SecretKeyError, SecretStore
from .settings import Settings, SettingsError

_log = structlog.get_logger("icecore.secret_keys")


def secret_store(settings: Settings) -> SecretStore:
    """The secret store of the settings: one key to encrypt, and previous ones to decrypt.

    Raises SettingsError for a missing or malformed key. There is no default, because all servers of one log need the same key.
    """
    return SecretStore(_key(settings), [_from_file(settings, number) for number in range(len(settings.secret_key_files_previous))])


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
    try:
        if settings.secret_key is not None:
            return SecretKey.from_base64(settings.secret_key.get_secret_value())
        if settings.secret_key_file is not None:
            return SecretKey.from_file(settings.secret_key_file)
    except (SecretKeyError, OSError) as error:
        raise SettingsError(f"ICECORE_SECRET_KEY or ICECORE_SECRET_KEY_FILE: {_said(error)}") from None
    raise SettingsError(
        "With your own database, Icecore needs a key to encrypt the credentials of warehouses: 32 random bytes in base64 "
        "(openssl rand -base64 32), the same for every server of the database, in ICECORE_SECRET_KEY_FILE or ICECORE_SECRET_KEY"
    )


def _from_file(settings: Settings, number: int) -> SecretKey:
    try:
        return SecretKey.from_file(settings.secret_key_files_previous[number])
    except (SecretKeyError, OSError) as error:
        raise SettingsError(f"ICECORE_SECRET_KEY_FILES_PREVIOUS: {_said(error)}") from None


def _said(error: SecretKeyError | OSError) -> str:
    """The path of the key file is left out, because an operator may have set the key itself there."""
    return str(error) if isinstance(error, SecretKeyError) else f"the file cannot be read: {error.strerror}"
