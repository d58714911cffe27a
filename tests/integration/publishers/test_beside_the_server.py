"""`icecore serve` publishes to its sinks from a child process, which is restarted when it dies and ends with the server."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests.integration.publishers.publishing import NatsUnderTest, until
from tests.servers.icecore import clean_environment
from tests.servers.nats import NatsServer
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, responds, running


def ask(method: str, url: str, body: dict[str, object] | None = None) -> dict[str, object]:
    request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=20) as response:
        body: dict[str, object] = json.loads(response.read() or b"{}")
        return body


def test_a_server_tells_what_it_commits(nats: NatsServer, open_directory: Path) -> None:
    """With two serving processes and one worker. The worker is restarted after a kill, and the schemas are served."""
    config = open_directory / "icecore.toml"
    config.write_text(f'workers = 2\n[sinks.broker]\ntype = "nats"\nurl = "{nats.url}"\n')
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "icecore",
        "serve",
        "--data",
        open_directory / "data",
        "--port",
        str(port),
        "--config",
        config,
    ]
    broker = NatsUnderTest(nats)
    with running(
        command, log=open_directory / "serve.log", ready=lambda: responds(f"{url}/health"), seconds_max=90,
        environment=clean_environment(), directory=ROOT,
    ) as server:  # fmt: skip
        prefix = ask("GET", f"{url}/catalog/v1/config?warehouse=demo")
        warehouse = dict(prefix["overrides"])["prefix"]  # type: ignore[call-overload]
        ask("POST", f"{url}/catalog/v1/{warehouse}/namespaces", {"namespace": ["first"]})
        wait_for(broker, "first")
        beside = publishing_process(server.pid)
        os.kill(beside, signal.SIGKILL)
        ask("POST", f"{url}/catalog/v1/{warehouse}/namespaces", {"namespace": ["second"]})
        wait_for(broker, "second")
        again = publishing_process(server.pid)
        assert beside != again
        schemas = ask("GET", f"{url}/management/v1/events/schemas")["schemas"]
        assert "io.icecore.table.committed.v1" in schemas  # type: ignore[operator]
        one = ask("GET", f"{url}/management/v1/events/schemas/io.icecore.namespace.created.v1")
        assert "urn:icecore:schema:io.icecore.namespace.created.v1" == one["$id"]
    assert 0 == server.returncode
    deadline = time.monotonic() + 10
    while Path(f"/proc/{again}").exists():
        assert time.monotonic() < deadline, "the publishing process outlived its server"
        time.sleep(0.05)


def wait_for(broker: NatsUnderTest, name: str) -> None:
    async def published() -> bool:
        return [name] == [each.event["subject"] for each in await broker.read() if each.event["subject"] == name]

    asyncio.run(until(published, what=f"the namespace {name} is published"))


def publishing_process(server: int) -> int:
    """The process id of the server's publishing child."""
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(server)], capture_output=True, text=True, check=True)
    found = [int(line.split()[0]) for line in listed.stdout.splitlines() if "icecore.worker" in line]
    assert 1 == len(found)
    return found[0]
