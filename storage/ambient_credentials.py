"""Removes credentials of the process's environment, which must not open a warehouse."""

import os

_AMBIENT_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_", "MSI_", "IDENTITY_")


def forget_ambient_credentials() -> None:
    """Take the clouds' variables out of this process's environment; for the start of the program, before any thread.

    obstore reads them for whatever a store is not told. What opens a store says everything that can be said (S3: all of it),
    but for some Azure settings there is no way to say "none".
    """
    for name in [name for name in os.environ if name.startswith(_AMBIENT_PREFIXES)]:
        del os.environ[name]
