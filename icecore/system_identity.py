"""Prepares a process for warehouses that use the server's own identity, if the settings permit them."""

import importlib

from .settings import Settings, SettingsError
from .storage.environment_credentials import restore_identities

_LIBRARIES = {"aws": ("botocore.session",), "gcp": ("google.auth", "requests"), "azure": ("azure.identity",)}
"""The modules of each cloud's client library. Each cloud is also the name of the extra."""


def prepare_system_identity(settings: Settings) -> None:
    """Call it before any thread is started. Raises SettingsError if a client library is not installed."""
    system = settings.system_credentials()
    enabled = {"aws": system.aws, "gcp": system.gcp, "azure": system.azure}
    for cloud in (cloud for cloud, is_enabled in enabled.items() if is_enabled):
        try:
            for module in _LIBRARIES[cloud]:
                importlib.import_module(module)
        except ImportError:
            setting = f"ICECORE_ENABLE_{cloud.upper()}_SYSTEM_CREDENTIALS"
            raise SettingsError(f"{setting} needs a client library: install Icecore with the extra {cloud}") from None
    restore_identities(**enabled)
