"""Standard output of a command."""

import os
import sys

from rich.console import Console


class Output(Console):
    """If the reader closes the pipe, the rest is dropped and `quiet` is set: the command ends with its own exit code.

    Rich would end it with 1, which says that `verify` found a difference.
    """

    def on_broken_pipe(self) -> None:
        self.quiet = True
        # Keeps the interpreter from reporting an error when it flushes.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
