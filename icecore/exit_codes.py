"""How the command ends, by number; docs/reference/command-line.md lists them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """0 and 1 answer the question; what is above says why it could not be asked."""

    OK = 0
    NO = 1
    """What was asked has the answer no: verify found a difference, health is bad, the request was refused."""
    USAGE = 2
    """The command line or a setting."""
    DATABASE = 3
    """The log: not reached, too old, not durable, newer than this code, or the embedded server does not start."""
    BUSY = 4
    """The port or the data folder is taken by another process, or a rebuild is running already."""
    CRASHED = 5
    """The server could not start or a worker died before it served; the log says why."""


class CommandFailed(Exception):
    """Ends the program with a message for the operator and an exit code; no trace is shown."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code
