"""Standard output of a command."""

import os
import sys
from typing import Any

from rich.console import Console

from .exit_codes import CommandFailed, ExitCode


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
