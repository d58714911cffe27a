"""Standard output of a command."""

import os
import sys
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .exit_codes import CommandFailed, ExitCode

_LINE_COLUMNS_MAX = 10_000
"""Width of a table that is not printed to a terminal."""


def printable(text: str) -> str:
    """Without control characters: clients chose the names."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def cell(text: str) -> str:
    """For a cell of a table: printable, and without markup."""
    return escape(printable(text))


def shown_time(time: datetime) -> str:
    """In UTC, to the second."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def shown_milliseconds(milliseconds: int) -> str:
    """As `shown_time`, of milliseconds since 1970."""
    return shown_time(datetime.fromtimestamp(milliseconds / 1_000, UTC))


def print_table(console: Console, table: Table) -> None:
    """Prints a table, in lines of any length if the output is not a terminal."""
    if not console.is_terminal:
        console.width = _LINE_COLUMNS_MAX
    console.print(table)


class Output(Console):
    """If the reader closes the pipe, the rest is dropped and `quiet` is set: the command ends with its own exit code.

    Rich would end it with 1, which says that `verify` found a difference.

    Raises CommandFailed if the output cannot be written, for example because the disk is full.
    """

    def __exit__(self, *details: Any) -> None:
        try:
            super().__exit__(*details)
        except OSError as error:
            self.on_broken_pipe()
            raise CommandFailed(ExitCode.CRASHED, f"Standard output cannot be written: {error.strerror}") from None

    def on_broken_pipe(self) -> None:
        self.quiet = True
        # Keeps the interpreter from reporting an error when it flushes.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
