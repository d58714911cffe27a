"""An S3 server for plain reads and writes: moto from PyPI, part of the development environment."""

import contextlib
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.servers.processes import free_port, responds, running, until_ended

SECONDS_MAX = 30.0
REGION = "us-east-1"
ACCESS_KEY_ID = "admin"
SECRET_ACCESS_KEY = "password"  # moto accepts any key.


@dataclass(frozen=True)
class S3:
    """The URL of the server. The bucket `lake` exists, as in the documentation."""

    endpoint: str
    bucket: str = "lake"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of clients."""
        return {
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }

    @property
    def storage_profile(self) -> dict[str, object]:
        """The storage profile of the warehouse, in Lakekeeper's format."""
        return {
            "type": "s3", "bucket": self.bucket, "key-prefix": "icecore", "region": REGION, "endpoint": self.endpoint,
            "path-style-access": True, "flavor": "s3-compat", "sts-enabled": False, "remote-signing-enabled": False,
        }  # fmt: skip

    @property
    def storage_credential(self) -> dict[str, object]:
        return {
            "type": "s3",
            "credential-type": "access-key",
            "aws-access-key-id": ACCESS_KEY_ID,
            "aws-secret-access-key": SECRET_ACCESS_KEY,
        }


@contextlib.contextmanager
def moto_s3(directory: Path) -> Iterator[S3]:
    """A new S3 server on loopback for the length of the block. Its log is in `directory`."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    program = Path(sys.executable).parent / "moto_server"
    ready = f"{endpoint}/moto-api/"
    with running(
        [program, "-H", "127.0.0.1", "-p", str(port)], log=directory / "moto.log", ready=lambda: responds(ready), seconds_max=SECONDS_MAX
    ):
        server = S3(endpoint)
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{server.bucket}", method="PUT"), timeout=10).close()
        yield server


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, moto_s3(Path(scratch)) as s3:
        print(s3.endpoint, flush=True)
        until_ended()
