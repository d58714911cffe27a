"""Registration of files whose JSON takes much more memory than bytes: refused unparsed, or one at a time, and the memory is released."""

import base64
import gzip
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
import pytest

from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.domain.commands import CreateNamespace
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.storage.metadata_files import METADATA_VALUES_MAX
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.rest_client import RestClient, RestResponse
from tests.integration.test_large_tables import demo, metadata_file
from tests.servers.icecore import PROGRAM, START_SECONDS_MAX, clean_environment
from tests.servers.processes import free_port, responds, running

MEBIBYTE = 1024 * 1024
PEAK_BYTES_MAX = 400 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class Worker:
    """A server in a separate process, and its memory."""

    process_id: int
    client: RestClient
    directory: Path

    def register(self, name: str, location: str) -> RestResponse:
        return self.client.call("POST", "/namespaces/a/register", {"name": name, "metadata-location": location})

    def bomb(self, name: str, element: bytes, count: int) -> str:
        """A compressed metadata file with an unknown member: a list of that many equal elements."""
        document = metadata_file(self.directory, name, snapshots=1)
        file = Path(document.removeprefix("file://"))
        plain = orjson.loads(file.read_bytes()) | {"table-uuid": f"01990000-0000-7000-8000-{len(name):012d}"}
        packed = gzip.compress(orjson.dumps(plain)[:-1] + b',"unknown":[' + element + (b"," + element) * (count - 1) + b"]}")
        assert len(packed) < 64 * 1024
        file.write_bytes(packed)
        return document

    def bytes_now(self) -> int:
        return self._bytes("VmRSS")

    def bytes_most(self) -> int:
        return self._bytes("VmHWM")

    def forget_most(self) -> None:
        Path(f"/proc/{self.process_id}/clear_refs").write_text("5")

    def _bytes(self, name: str) -> int:
        lines = Path(f"/proc/{self.process_id}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


@pytest.fixture
async def directory(database: str, tmp_path: Path) -> Path:
    """Holds the warehouse `demo` of that database, with the namespace `a`."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        await create_namespace(
            catalog.commands, context("createNamespace"), await demo(catalog), CreateNamespace(NamespaceIdentifier(("a",)), {})
        )
    return tmp_path


@pytest.fixture
def worker(database: str, directory: Path) -> Iterator[Worker]:
    environment = {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": base64.b64encode(b"k" * 32).decode()}
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [PROGRAM, "serve", "--port", str(port)]
    with running(
        command,
        log=directory / "server.log",
        ready=lambda: responds(f"{url}/health"),
        seconds_max=START_SECONDS_MAX,
        environment=clean_environment() | environment,
    ) as process:
        client = RestClient(url)
        yield Worker(process.pid, client, directory)
        client.close()


def _large_table(worker: Worker, name: str) -> str:
    """A metadata file of 16 snapshots with a text of a megabyte each."""
    document = metadata_file(worker.directory, name, snapshots=16)
    file = Path(document.removeprefix("file://"))
    content = orjson.loads(file.read_bytes()) | {"table-uuid": f"01990000-0000-7000-8000-{len(name):012d}"}
    for snapshot in content["snapshots"]:
        snapshot["summary"]["text"] = "x" * MEBIBYTE
    file.write_bytes(orjson.dumps(content))
    return document


def test_many_large_tables_are_loaded_and_changed_at_once(worker: Worker) -> None:
    """Tables of 16 MB that are not cached: requests wait for each other, and one that needs too much is refused."""
    names = ["x" * n for n in range(1, 7)]
    for name in names:
        assert 200 == worker.register(name, _large_table(worker, name)).status
    update = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}], "requirements": []}

    def answered(method: str, body: object = None) -> set[int]:
        calls = [partial(worker.client.call, method, f"/namespaces/a/tables/{name}", body) for name in names]
        with ThreadPoolExecutor(len(names)) as together:
            return {called.result().status for called in [together.submit(call) for call in calls]}

    worker.forget_most()
    # Beyond the budget for responses, or after too long a wait on a busy machine.
    assert answered("GET") <= {200, 429}
    assert answered("POST", update) <= {200, 429}
    changes = [{"identifier": {"namespace": ["a"], "name": name}} | update for name in names]
    refused = worker.client.call("POST", "/transactions/commit", {"table-changes": changes})
    assert worker.bytes_most() < PEAK_BYTES_MAX
    assert (400, "BadRequestException") == refused.error
    assert "together" in refused.message


def test_a_small_file_of_many_values_takes_little_memory_and_gives_it_back(worker: Worker) -> None:
    """20 million lists in 60 KB are refused unparsed. Of permitted files, four concurrent ones are processed one after the other."""
    worker.client.table_names("a")
    before = worker.bytes_now()
    refused = worker.register("lists", worker.bomb("lists", b"[]", 20_000_000))
    assert (400, "BadRequestException") == refused.error
    assert "more than 1000000 values" in refused.message
    assert worker.bytes_most() < before + 80 * MEBIBYTE

    worker.forget_most()
    names = ["x" * n for n in range(1, 5)]
    locations = [worker.bomb(name, b'{"a":0}', METADATA_VALUES_MAX // 3 - 100) for name in names]
    with ThreadPoolExecutor(len(names)) as together:
        statuses = {response.status for response in together.map(worker.register, names, locations)}
    # On a busy machine the last one may have waited too long.
    assert statuses in ({200}, {200, 429})
    assert before + 50 * MEBIBYTE < worker.bytes_most() < PEAK_BYTES_MAX
    deadline = time.monotonic() + 30
    while worker.bytes_now() > before + 60 * MEBIBYTE:
        assert time.monotonic() < deadline, (before, worker.bytes_most(), worker.bytes_now())
        time.sleep(0.1)
