"""Removes credentials from the process's environment, because they must not be used for warehouses."""

import os

_AMBIENT_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_", "MSI_", "IDENTITY_")


def forget_ambient_credentials() -> None:
    """Removes the clouds' variables from this process's environment. Call it at the start of the program, before any thread.

    obstore reads them for every option that is not given. Stores are opened with all options given (for S3, without exception), but some
    Azure options cannot be set to "none".
    """
    for name in [name for name in os.environ if name.startswith(_AMBIENT_PREFIXES)]:
        del os.environ[name]
