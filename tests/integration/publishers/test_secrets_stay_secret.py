"""Errors of sinks' clients may contain their arguments. No secret reaches the log, the tables or a terminal."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg

from tests.fixtures.repeating_servers import CANARY, NATS_INFO, RESPONSES, answering, webhook_headers, without_canary
from tests.integration.publishers.publishing import Nursery, until
from tests.servers.paths import ROOT


def webhook(url: str) -> dict[str, Any]:
    return {"type": "webhook", "url": url, "secret": f"s-{CANARY}", "headers": webhook_headers(url), "timeout_seconds": 1}


async def bad_sinks(opened: AsyncExitStack) -> dict[str, dict[str, Any]]:
    """Sinks of every type, each with secrets wherever possible, and each with an error."""
    sinks: dict[str, dict[str, Any]] = {}
    plain = 0
    for name, response in RESPONSES.items():
        plain = await opened.enter_async_context(answering(response))
        sinks[f"webhook-{name}"] = webhook(f"http://127.0.0.1:{plain}/hooks/{CANARY}?sig={CANARY}")
        sinks[f"webhook-user-{name}"] = webhook(f"http://user:{CANARY}@127.0.0.1:{plain}/hooks/{CANARY}")
    sinks["webhook-tls"] = webhook(f"https://127.0.0.1:{plain}/hooks/{CANARY}?token={CANARY}")
    sinks["webhook-port"] = webhook(f"http://127.0.0.1:9/hooks/{CANARY}")
    sinks["webhook-host"] = webhook(f"http://{CANARY}@no-such-host.invalid/hooks/{CANARY}")
    sinks["webhook-url"] = webhook(f"http://[{CANARY}/hooks")
    sinks["webhook-authority"] = webhook(f"http://user:pa/{CANARY}@127.0.0.1:9/")
    sinks["webhook-header"] = webhook("http://127.0.0.1:9/") | {"headers": {"X-Token": f"{CANARY}\r\nx"}}
    sinks["webhook-file"] = {"type": "webhook", "url": "http://127.0.0.1:9/", "secret_file": f"/{CANARY}"}

    def nats(url: str, **more: Any) -> dict[str, Any]:
        return {"type": "nats", "url": url, "timeout_seconds": 1, "stream": f"S{len(sinks)}", **more}

    secret = {"user": "icecore", "password": CANARY}
    refusing = await opened.enter_async_context(answering(lambda sent: b"-ERR '" + sent.replace(b"\r\n", b" ") + b"'\r\n", NATS_INFO))
    sinks["nats-refusal"] = nats(f"nats://127.0.0.1:{refusing}", **secret)
    sinks["nats-token"] = nats(f"nats://{CANARY}@127.0.0.1:{refusing}", token=CANARY)
    sinks["nats-garbage"] = nats(f"nats://127.0.0.1:{plain}", **secret)
    sinks["nats-port"] = nats(f"nats://u:{CANARY}@127.0.0.1:9")
    sinks["nats-url"] = nats(f"nats://u:{CANARY}@127.0.0.1:{CANARY}")
    sinks["nats-tls"] = nats(f"tls://u:{CANARY}@127.0.0.1:{plain}")
    sinks["nats-file"] = nats("nats://127.0.0.1:9", credentials_file=f"/{CANARY}")

    def kafka(url: str, **more: Any) -> dict[str, Any]:
        return {"type": "kafka", "url": url, "timeout_seconds": 1, "topic": f"t{len(sinks)}", **more}

    sasl = {"user": "icecore", "password": CANARY, "sasl_mechanism": "PLAIN"}
    sinks["kafka-garbage"] = kafka(f"127.0.0.1:{plain}", **sasl)
    sinks["kafka-port"] = kafka("127.0.0.1:9", **sasl)
    sinks["kafka-url"] = kafka(f"u:{CANARY}@127.0.0.1:9", **sasl)
    sinks["kafka-tls"] = kafka(f"127.0.0.1:{plain}", **sasl, tls=True)
    sinks["kafka-config"] = kafka("127.0.0.1:9", config={"sasl.jaas.config": CANARY, "ssl.key.password": CANARY})
    sinks["kafka-value"] = kafka("127.0.0.1:9", config={"sasl.password": CANARY, "security.protocol": CANARY})
    sinks["kafka-file"] = kafka("127.0.0.1:9", password_file=f"/{CANARY}")
    return sinks


def icecore(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
    command = [sys.executable, "-m", "icecore", *arguments]
    environment["ICECORE_CONFIG"] = str(config)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def toml(database: str, sinks: dict[str, dict[str, Any]]) -> str:
    """The sinks as a settings file."""

    def value(given: Any) -> str:
        if isinstance(given, dict):
            return "{" + ", ".join(f"{json.dumps(name)} = {json.dumps(member)}" for name, member in given.items()) + "}"
        return json.dumps(given)

    lines = [f"database_url = {json.dumps(database)}"]
    for name, sink in sinks.items():
        lines += [f"[sinks.{name}]", *(f"{field} = {value(given)}" for field, given in sink.items())]
    return "\n".join(lines)


async def test_no_failure_of_any_sink_shows_a_secret(database: str, log: list[str], nursery: Nursery, tmp_path: Path) -> None:
    """Malformed responses, refused TLS and credentials, wrong ports and hosts. The operator reads type, host and port."""
    async with AsyncExitStack() as opened:
        sinks = await bad_sinks(opened)
        process = nursery.start(database, sinks, tmp_path, log_level="debug")

        async def all_failed() -> bool:
            async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
                cursor = await connection.execute("select name from icecore.sinks where last_error is not null")
                missing = sinks.keys() - {row[0] for row in await cursor.fetchall()}
            return not missing

        await until(all_failed, what="every sink has failed", seconds_max=30)
        config = tmp_path / "icecore.toml"
        config.write_text(toml(database, sinks))
        shown = await asyncio.to_thread(icecore, config, "sinks")
        process.stop()
    assert 1 == shown.returncode, shown.stderr
    without_canary("icecore sinks", shown.stdout + shown.stderr)
    without_canary("the log", process.log.read_text())
    with psycopg.connect(database) as connection:
        for table in ("sinks", "events"):
            for row in connection.execute(f"select t::text from icecore.{table} t"):
                without_canary(table, row[0])
        errors = dict(connection.execute("select name, last_error from icecore.sinks").fetchall())
    for name in ("webhook-port", "nats-port"):
        assert "connection refused at 127.0.0.1:9" in errors[name], errors[name]
    assert "127.0.0.1:9" in errors["kafka-port"]
