"""`python -m icecore` is the command `icecore`."""

from .cli import main

if __name__ == "__main__":
    main()
