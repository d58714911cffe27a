"""A server has the secret keys of its start for its whole life, also in processes that it starts again."""

import base64
import os
import signal
from pathlib import Path
from typing import Any

import psycopg

from icecore.embedded_postgres import embedded_postgres
from tests.fixtures.waiting import wait_for
from tests.integration.test_program import Serve, Served, children_of, serve

__all__ = ["serve"]

CREDENTIAL = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "AKIA0", "aws-secret-access-key": "hunter2hunter2"}


def create_warehouse(served: Served, name: str) -> Any:
    profile = {"type": "s3", "bucket": name, "region": "eu-central-1", "sts-enabled": False, "flavor": "aws"}
    body = {"warehouse-name": name, "storage-profile": profile, "storage-credential": CREDENTIAL}
    return served.post("/management/v1/warehouse", body)


def replace(served: Served, module: bytes) -> None:
    """Kills the processes of a module, and waits until as many have replaced them."""
    before = children_of(served.process, module)
    assert before
    for process in before:
        os.kill(process, signal.SIGKILL)
    wait_for(lambda: len(children_of(served.process, module) - before) == len(before))


def is_served(served: Served) -> bool:
    try:
        return bool("ok" == served.get("/health")["status"])
    except OSError:
        return False


def key_ids(served: Served) -> list[tuple[str, int]]:
    """The keys that encrypted the stored credentials, and the number of credentials of each."""
    with embedded_postgres(served.data) as dsn, psycopg.connect(dsn) as connection:
        return connection.execute("select key_id, count(*) from icecore.secrets group by key_id").fetchall()


def test_a_process_that_is_started_again_has_the_keys_of_the_start(serve: Serve, open_directory: Path) -> None:
    """Although the files were replaced and deleted. With another key it could not read what the others store."""
    key, previous = open_directory / "key", open_directory / "previous"
    key.write_bytes(base64.b64encode(b"1" * 32))
    previous.write_bytes(base64.b64encode(b"0" * 32))
    files = {"ICECORE_SECRET_KEY_FILE": str(key), "ICECORE_SECRET_KEY_FILES_PREVIOUS": str(previous)}
    served = serve("--workers", "2", **files, ICECORE_SKIP_STORAGE_VALIDATION="true")
    create_warehouse(served, "before")
    for change in (lambda: key.write_bytes(base64.b64encode(b"2" * 32)), previous.unlink, key.unlink):
        change()
        replace(served, b"icecore.worker")
        replace(served, b"icecore.serving_process")
        wait_for(lambda: is_served(served))
    for number in range(4):
        create_warehouse(served, f"after-{number}")
    assert [5] == [count for _, count in key_ids(served)]
    ended = [record["exit_code"] for record in served.records() if record["event"] == "process_restarting"]
    assert {-signal.SIGKILL} == set(ended)
    assert 0 == served.stop()
