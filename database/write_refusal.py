"""What an error says of a write: whether it was rolled back, and whether Postgres refuses every write."""

import psycopg


def was_rolled_back(error: Exception) -> bool:
    """Whether Postgres reported that the statement failed. After an error of this process, of psycopg or of the whole session (FATAL,
    PANIC) it may have been committed.
    """
    return isinstance(error, psycopg.Error) and error.sqlstate is not None and error.diag.severity_nonlocalized not in ("FATAL", "PANIC")


def write_refusal_reason(error: Exception) -> str | None:
    """Why Postgres refuses every write, for clients and log records; None if the error has another cause."""
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return "Postgres accepts no writes: it is read-only"
    code = error.sqlstate if isinstance(error, psycopg.Error) else None
    if code == "55000":
        return "Postgres accepts no writes: its transactions are not read committed"
    if code == "53100":
        return "Postgres accepts no writes: it has no space left"
    if code == "58030":
        return "Postgres accepts no writes: its storage reports an error"
    if code is not None and code.startswith("53"):
        return "Postgres accepts no writes: it has run out of a resource"
    return None
