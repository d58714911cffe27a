"""The catalog that a suite tests."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.icecore import Icecore
from tests.servers.moto import S3


@dataclass(frozen=True)
class Target:
    """A running catalog: its URL, and our server unless the catalog is foreign."""

    uri: str
    server: Icecore | None

    def add_local_warehouse(self, name: str, directory: Path, allowed_locations: tuple[str, ...] = ()) -> None:
        """A warehouse in an empty local folder; a foreign catalog accepts any name."""
        directory.mkdir()
        if self.server:
            profile = {"type": "local", "directory": str(directory), "allowed-locations": list(allowed_locations)}
            self.server.create_warehouse(name, profile)

    def add_s3_warehouse(self, name: str, s3: S3, allowed_locations: tuple[str, ...] = ()) -> None:
        """A warehouse on that S3 server's bucket."""
        if self.server:
            profile = {**s3.storage_profile, "allowed-locations": list(allowed_locations)}
            self.server.create_warehouse(name, profile, s3.storage_credential)

    def check_against_log(self) -> None:
        """Checks that our log and read models agree, before and after a rebuild. Does nothing for a foreign catalog."""
        if self.server is None:
            pytest.skip("ICECORE_CONFORMANCE_URI names a catalog that is not ours")
        self.server.check_against_log()
