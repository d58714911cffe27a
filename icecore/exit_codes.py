"""Exit codes of the command line (docs/reference/command-line.md), and the exceptions and signals that end it. Imports nothing heavy."""

import signal
import sys
from enum import IntEnum


class ExitCode(IntEnum):
    """0 and 1 are results; higher codes say why there is none."""

    OK = 0
    NO = 1
    """A negative result: verify found a difference, the server is unhealthy, or the request was refused."""
    USAGE = 2
    """The command line, a setting, the data folder, a storage profile or a credential is wrong, or a new store failed a check."""
    DATABASE = 3
    """The database is unreachable, not writable or unfit, its schema is of another version, or the embedded Postgres does not start."""
    BUSY = 4
    """The port or the data folder is in use by another process, or another rebuild is running."""
    CRASHED = 5
    """The server could not start or a worker died before it served; its log records say why. Or standard output cannot be written."""


ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command. Ctrl-C raises KeyboardInterrupt."""


def exit_by_signal(number: int, _frame: object) -> None:
    """A handler that ends the command as an error would, so that everything it opened is closed.

    Later signals are ignored, because `timeout` and a closed terminal send several.
    """
    for each in {number, *ENDING_SIGNALS}:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


class CommandFailed(Exception):
    """Ends the program with an exit code and a message for the operator, without a trace."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class SettingsError(Exception):
    """A setting is unknown, malformed or contradicts another. The message names it and never contains values, which may be secrets."""
