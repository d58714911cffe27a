"""Checks of `icecore doctor` against what hangs: each ends in time, and closes what it opened."""

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr
from rich.console import Console

from icecore import doctor as doctor_module
from icecore.database import connection as connection_module
from icecore.doctor import _check_role, _check_sink, _check_store, _connect, doctor
from icecore.exit_codes import ExitCode
from icecore.publishers.sink import SinkError
from icecore.security.secrets import SecretUnreadable
from icecore.settings import Settings

Reported = list[tuple[str, str, str]]


@asynccontextmanager
async def no_connection() -> AsyncIterator[None]:
    yield None


async def hang(*_: object) -> None:
    await asyncio.sleep(60)


def test_a_hook_that_is_not_installed_is_a_failed_check(tmp_path: Path) -> None:
    """A server would not start with it. The other checks follow."""
    out = io.StringIO()
    hooks: Any = {"four-eyes": {"type": "plugin", "plugin": "nowhere"}, "contracts": {"type": "plugin", "plugin": "schema-contract"}}
    code = doctor(lambda: Settings(hooks=hooks, data_dir=tmp_path / "none"), Console(file=out), as_json=True)
    checks = json.loads(out.getvalue())
    expected = [("settings", "ok"), ("hook four-eyes", "failed"), ("hook contracts", "ok"), ("data folder", "failed")]
    assert (ExitCode.NO, expected) == (code, [(check["name"], check["status"]) for check in checks])
    assert "needs the plug-in 'nowhere'" in checks[1]["message"]


async def test_a_store_that_hangs_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent of the store client's own limits."""
    monkeypatch.setattr(doctor_module, "STORE_SECONDS_MAX", 0.1)
    found: Reported = []
    catalog: Any = SimpleNamespace(backends=SimpleNamespace(store=hang))
    warehouse: Any = SimpleNamespace(name="lake", profile=SimpleNamespace(base="s3://lake", endpoint_url="http://minio:9000"))
    async with asyncio.timeout(10):
        await _check_store(catalog, warehouse, lambda *check: found.append(check))
    [(name, status, message)] = found
    assert ("warehouse lake", "failed", True) == (name, status, "s3://lake at http://minio:9000 did not respond" in message)


@pytest.mark.parametrize("hanging", [True, False])
async def test_a_sink_is_closed_even_if_it_hangs(monkeypatch: pytest.MonkeyPatch, hanging: bool) -> None:
    """A failed check, or a sink that can be opened."""
    closed: list[bool] = []
    found: Reported = []

    class Sink:
        async def open(self) -> None:
            if hanging:
                await hang()

        async def close(self) -> None:
            closed.append(True)

    @asynccontextmanager
    async def locked(*_: object) -> AsyncIterator[object]:
        yield object()

    monkeypatch.setattr(doctor_module.checkpoints, "locked", locked)
    monkeypatch.setattr(doctor_module, "SINK_SECONDS_MAX", 0.1)
    sinks: Any = {"out": {"type": "stdout"}}
    make: Any = Sink
    settings = Settings(database_url=SecretStr("postgresql:///none"), sinks=sinks)
    async with asyncio.timeout(10):
        await _check_sink(settings, "out", make, lambda *check: found.append(check))
    [(name, status, message)] = found
    assert ("sink out", "failed" if hanging else "ok", [True]) == (name, status, closed)
    assert ("did not respond" in message) == hanging


async def test_warehouses_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are those of a project. Of three called `lake`, two have credentials that no key decrypts."""
    found: Reported = []
    checked: list[int] = []
    lakes = [SimpleNamespace(id=UUID(int=n), name="lake", project_id=UUID(int=n), secret_ref=UUID(int=n)) for n in range(3)]

    async def credential(project_id: UUID, _: UUID) -> None:
        if project_id.int < 2:
            raise SecretUnreadable("another key")

    async def read(_: object) -> list[Any]:
        return lakes

    async def check(_: object, warehouse: Any, __: object) -> None:
        checked.append(warehouse.id.int)

    monkeypatch.setattr(doctor_module.warehouses, "read_all_projects", read)
    monkeypatch.setattr(doctor_module, "as_warehouse", lambda state, _: state)
    monkeypatch.setattr(doctor_module, "_check_store", check)

    async def count_unreadable(_: object) -> tuple[int, int]:
        return 2, 3

    commands = SimpleNamespace(secrets=SimpleNamespace(count_unreadable=count_unreadable))
    backends = SimpleNamespace(connection=no_connection, credential=credential)
    catalog: Any = SimpleNamespace(backends=backends, commands=commands)
    await doctor_module._check_warehouses(catalog, lambda *check: found.append(check))
    [(name, status, message)] = found
    assert ("secret key", "failed", True) == (name, status, message.startswith("2 of the warehouses' credentials"))
    assert [2] == checked


async def test_the_text_of_a_sink_s_client_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may contain a password, or data of an event."""
    found: Reported = []

    class Sink:
        async def open(self) -> None:
            raise ValueError("hunter2")

        async def close(self) -> None: ...

    @asynccontextmanager
    async def locked(*_: object) -> AsyncIterator[object]:
        yield object()

    monkeypatch.setattr(doctor_module.checkpoints, "locked", locked)
    sinks: Any = {"out": {"type": "stdout"}}
    make: Any = Sink
    settings = Settings(database_url=SecretStr("postgresql:///none"), sinks=sinks)
    await _check_sink(settings, "out", make, lambda *check: found.append(check))
    assert [("sink out", "failed", "ValueError")] == found


async def test_an_owner_s_database_that_does_not_respond_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that accepts the connection and says nothing."""
    monkeypatch.setattr(connection_module, "CONNECT_TIMEOUT_SECONDS", 2)
    found: Reported = []

    class Serving:
        async def execute(self, _: str) -> "Serving":
            return self

        async def fetchone(self) -> tuple[str, bool, bool]:
            return "serving", True, False

    connection: Any = Serving()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://owner@127.0.0.1:{silent.getsockname()[1]}/icecore"
        async with asyncio.timeout(20):
            settings = Settings(database_url=SecretStr(url), database_owner_url=SecretStr(url))
            await _check_role(settings, connection, lambda *check: found.append(check))
    [(name, status, message)] = found
    assert ("role", "failed", True) == (name, status, "ICECORE_DATABASE_OWNER_URL: the database cannot be reached" in message)


@pytest.mark.parametrize(
    ("url", "port"), [("https://hooks.example.org/x", 443), ("http://hooks.example.org/x", 80), ("https://hooks.example.org:8443", 8443)]
)
async def test_a_webhook_is_asked_at_its_port(monkeypatch: pytest.MonkeyPatch, url: str, port: int) -> None:
    asked: list[tuple[str, int]] = []

    async def connect(host: str, port: int) -> tuple[None, Any]:
        asked.append((host, port))
        return None, SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(asyncio, "open_connection", connect)
    await _connect(url)
    assert [("hooks.example.org", port)] == asked


async def test_a_webhook_that_refuses_is_named_by_host_and_port(unused_tcp_port: int) -> None:
    """The path and the user may be secrets."""
    with pytest.raises(SinkError) as refused:
        await _connect(f"http://user:hunter2@127.0.0.1:{unused_tcp_port}/hunter2")
    assert f"the endpoint did not respond: connection refused at 127.0.0.1:{unused_tcp_port}" == str(refused.value)
