"""The program `icecore`, and `python -m icecore`: what must be done before the imports, and then the command."""

import os
import signal
import sys


def main() -> None:
    """The entry point of the program."""
    # Without this, Ctrl-C during the imports prints a trace. cli.main restores Python's handler.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_standard_streams()
    from .cli import main as run_command

    run_command()


def _open_standard_streams() -> None:
    """Opens a closed standard stream as /dev/null. A socket or file that was given its number would receive what is printed."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # Of the numbers that are free the lowest is given, and those before are open by now.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    main()
