"""Reads files that settings name: secrets and certificates. Messages do not show the paths, which could be the secret by mistake."""

from pathlib import Path

from .sink import SinkError


def read_secret(setting: str, path: Path) -> str:
    """The text of the file that the setting names. Raises SinkError, which names the setting."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _unreadable(setting, error) from None


def require_file(setting: str, path: Path | None) -> None:
    """Raises SinkError, which names the setting, for a file that a client could not open; clients' own errors name neither."""
    if path is None:
        return
    try:
        path.open("rb").close()
    except (OSError, ValueError) as error:
        raise _unreadable(setting, error) from None


def _unreadable(setting: str, error: Exception) -> SinkError:
    why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return SinkError(f"the file of the setting {setting} cannot be read: {why}")
