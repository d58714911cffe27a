"""Errors of the embedded Postgres, with messages for the operator."""

from pathlib import Path


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot be used; the message says why and what to do."""


class DataFolderError(EmbeddedPostgresError):
    """The data folder is incomplete or damaged, or of another version. A later attempt does not help."""


class OtherMajorVersionError(DataFolderError):
    """The cluster was made by a major version of Postgres that is not installed."""

    def __init__(self, data: Path | None, major: str, installed: str) -> None:
        super().__init__(
            f"{data} was made by Postgres {major}, and this Icecore has {installed}: start it with Postgres {major}, dump it, and restore "
            "the dump into your own Postgres: see 'Upgrade' in the documentation"
        )
