"""The metrics port of `icecore serve` and `icecore worker` as Prometheus scrapes it: one port for all processes of the server."""

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from icecore.exit_codes import ExitCode
from tests.fixtures.waiting import wait_for
from tests.integration.test_program import (
    CHECKOUT,
    Serve,
    Served,
    children_of,
    command,
    connection,
    connections_of,
    icecore,
    serve,
    worker_processes,
)
from tests.servers.processes import free_port

__all__ = ["serve"]

SCRAPE_SECONDS_MAX = 6.0
"""Prometheus waits for 10 by default."""
OPERATION = {"operation": "listNamespaces", "status": "200"}

Sample = tuple[str, frozenset[tuple[str, str]]]


class Scrape:
    """The samples of one scrape, by name and labels; each is there once."""

    def __init__(self, url: str) -> None:
        with urllib.request.urlopen(url, timeout=60) as response:
            self.text = response.read().decode()
        self.samples: dict[Sample, float] = {}
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self.samples, key
                self.samples[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    def processes(self, name: str) -> set[str]:
        return {dict(labels)["process"] for found, labels in self.samples if found == name}

    def up(self) -> dict[str, float]:
        return {dict(labels)["process"]: value for (name, labels), value in self.samples.items() if name == "icecore_process_up"}


def scrape(port: int) -> Scrape:
    return Scrape(f"http://127.0.0.1:{port}/metrics")


@pytest.fixture
def port() -> int:
    return free_port()


def with_two_processes(serve: Serve, port: int, **environment: str) -> Served:
    served = serve("--workers", "2", ICECORE_METRICS_PORT=str(port), **environment)
    wait_for(lambda: set(scrape(port).up().values()) == {1.0})
    return served


def ask(served: Served, times: int) -> None:
    """Sends so many requests, on connections to both processes."""
    path = f"{served.prefix()}/namespaces"
    with ExitStack() as opened:
        clients = [opened.enter_context(closing(connection(served))) for _ in range(10)]
        for client in clients:
            client.request("GET", "/livez")
            client.getresponse().read()
        while not all(connections_of(process) for process in worker_processes(served)):
            clients.append(opened.enter_context(closing(connection(served))))
            clients[-1].request("GET", "/livez")
            clients[-1].getresponse().read()
        for number in range(times):
            # The newest first: of those the last may be the only one of its process.
            client = clients[-1 - number % len(clients)]
            client.request("GET", path)
            response = client.getresponse()
            response.read()
            assert 200 == response.status


@contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def test_one_scrape_has_the_requests_of_all_processes(serve: Serve, port: int) -> None:
    """Sums of counters and histograms, and each process by its name."""
    served = with_two_processes(serve, port, ICECORE_SINKS__OUT__TYPE="stdout")
    ask(served, 50)
    wait_for(lambda: ("icecore_sink_has_leader", frozenset({("sink", "out")})) in scrape(port).samples)
    found = scrape(port)
    assert 50 == found.value("icecore_requests_total", **OPERATION)
    assert 50 == found.value("icecore_request_seconds_count", operation="listNamespaces")
    assert 50 == found.value("icecore_request_seconds_bucket", operation="listNamespaces", le="+Inf")
    everyone = {"supervisor", "serving-1", "serving-2", "worker"}
    assert dict.fromkeys(everyone, 1.0) == found.up()
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds"):
        assert everyone == found.processes(f"process_{name}")
    assert everyone - {"supervisor"} == found.processes("icecore_connections_in_use") == found.processes("icecore_log_up")
    assert ["icecore_build_info"] == [name for name, _ in found.samples if name == "icecore_build_info"]
    assert 1 <= found.value("icecore_log_position")
    assert 1 == found.value("icecore_sink_has_leader", sink="out")
    assert 1 <= found.value("icecore_job_runs_total", job="purge", outcome="success")
    assert 0 == served.stop()


def test_counters_go_on_where_a_process_was_replaced(serve: Serve, port: int) -> None:
    """No scrape has less than the one before. What the process had in memory has no gauge any more."""
    served = with_two_processes(serve, port)
    ask(served, 50)
    before, scrapes = scrape(port), list[Scrape]()
    (killed,) = children_of(served.process, b"icecore.worker")
    os.kill(killed, signal.SIGKILL)
    for process in worker_processes(served):
        os.kill(process, signal.SIGKILL)
    wait_for(lambda: not worker_processes(served) & {killed})
    wait_for(lambda: scrapes.append(scrape(port)) or set(scrapes[-1].up().values()) == {1.0})
    assert any(0.0 in each.up().values() for each in scrapes)
    for each in scrapes:
        assert 50 == each.value("icecore_requests_total", **OPERATION)
        assert 50 == each.value("icecore_request_seconds_count", operation="listNamespaces")
        answering = {name for name, up in each.up().items() if up}
        assert answering == each.processes("process_resident_memory_bytes")
        assert answering - {"supervisor"} == each.processes("icecore_connections_in_use")
    ask(served, 10)
    assert 60 == scrape(port).value("icecore_requests_total", **OPERATION)
    for name in ("serving-1", "serving-2", "worker"):
        after = scrape(port).value("process_start_time_seconds", process=name)
        assert before.value("process_start_time_seconds", process=name) < after
    assert 0 == served.stop()


def test_a_process_that_hangs_is_reported_in_time(serve: Serve, port: int) -> None:
    """The scrape has the others, and what the process had counted before."""
    served = with_two_processes(serve, port)
    ask(served, 50)
    assert 50 == scrape(port).value("icecore_requests_total", **OPERATION)
    with stopped(min(worker_processes(served))):
        for _ in range(3):
            began = time.monotonic()
            found = scrape(port)
            assert time.monotonic() - began < SCRAPE_SECONDS_MAX
            up = found.up()
            (hanging,) = (name for name, value in up.items() if not value)
            assert hanging in {"serving-1", "serving-2"}
            assert up.keys() - {hanging} == found.processes("process_open_fds")
            assert 50 == found.value("icecore_requests_total", **OPERATION)
    assert set(scrape(port).up().values()) == {1.0}
    ask(served, 10)
    assert 60 == scrape(port).value("icecore_requests_total", **OPERATION)
    assert 0 == served.stop()


def test_one_serving_process_has_the_metrics_of_the_worker_beside_it(serve: Serve, port: int) -> None:
    """Nothing is added for requests to the metrics port itself, and other hosts are refused."""
    served = serve(ICECORE_METRICS_PORT=str(port))
    wait_for(lambda: scrape(port).up() == {"serving-1": 1.0, "worker": 1.0})
    served.get(f"{served.prefix()}/namespaces")
    found = scrape(port)
    assert 1 == found.value("icecore_requests_total", **OPERATION)
    assert {"serving-1", "worker"} == found.processes("process_open_fds")
    assert not [labels for name, labels in found.samples if name == "icecore_requests_total" and ("operation", "none") in labels]
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    assert 403 == refused.value.code
    refused.value.close()


def test_a_worker_alone_has_a_metrics_port(serve: Serve, port: int) -> None:
    """A taken one is named as for a server."""
    served = serve(ICECORE_WORKER_BESIDE_SERVER="false", ICECORE_METRICS_PORT=str(port))
    wait_for(lambda: scrape(port).up() == {"serving-1": 1.0})
    refused = icecore("worker", "--data", str(served.data), ICECORE_METRICS_PORT=str(port))
    assert ExitCode.BUSY == refused.returncode
    assert f"Port {port} on 127.0.0.1 is in use" in refused.stderr
    assert "with ICECORE_METRICS_PORT" in refused.stderr
    own = free_port()
    environment = os.environ | {"ICECORE_METRICS_PORT": str(own)}
    arguments = command("worker", "--data", str(served.data))
    with subprocess.Popen(arguments, cwd=CHECKOUT, env=environment, stderr=subprocess.PIPE, text=True) as working:
        try:
            wait_for(lambda: responds(own))
            found = scrape(own)
            assert {"worker": 1.0} == found.up()
            assert 1 == found.value("icecore_log_up", process="worker")
            assert 0 == found.value("icecore_job_runs_total", job="purge", outcome="failure")
        finally:
            working.send_signal(signal.SIGTERM)
            _, log = working.communicate(timeout=30)
    assert 0 == working.returncode
    assert re.search(rf"metrics .*url=http://127.0.0.1:{own}/metrics", log), log


def responds(port: int) -> bool:
    try:
        scrape(port)
    except OSError:
        return False
    return True
