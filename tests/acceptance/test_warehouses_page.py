"""The commands and files of docs/warehouses.md, run as they stand there."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.fixtures.readme import CATALOG_URI, pieces
from tests.servers.icecore import PROGRAM, Icecore, clean_environment
from tests.servers.moto import moto_s3
from tests.servers.places import ROOT

ENDPOINT = "http://127.0.0.1:9000"
SECONDS_MAX = 120


def test_s3_warehouse(server: Icecore, scratch: Path) -> None:
    """The warehouse is made of the files and listed, and PyIceberg writes and reads a table in it: port, bucket and data folder apart."""
    page = pieces((ROOT / "docs" / "warehouses.md").read_text())
    assert ENDPOINT in page["s3 profile"]
    with moto_s3(scratch) as s3:
        profile = {**json.loads(page["s3 profile"]), "endpoint": s3.endpoint, "bucket": s3.bucket}
        (scratch / "lake.json").write_text(json.dumps(profile))
        (scratch / "lake-credential.json").write_text(page["s3 credential"])
        environment = clean_environment() | {
            "ICECORE_DATA_DIR": str(server.data), "PATH": os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"])),
        }  # fmt: skip
        assert "lake" in run(["bash", "-e", "-c", page["s3 warehouse"]], scratch, environment)
        program = page["s3 pyiceberg"].replace(CATALOG_URI, server.catalog_uri)
        assert "[{'name': 'Ada'}]\n" == run([sys.executable, "-c", program], scratch, clean_environment())


def run(command: list[str], directory: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, cwd=directory, env=environment, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout
