"""No response or failure of approval webhooks and object stores reveals secrets in logs, responses or tables."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest

from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.domain.documents import Json
from icecore.domain.errors import BadRequest
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.repeating_servers import CANARY, RESPONSES, answering, webhook_headers, without_canary
from tests.fixtures.rest_client import RestClient, RestResponse
from tests.integration.approval.program import serving

KEY = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": f"id-{CANARY}", "aws-secret-access-key": CANARY}
SERVICE_ACCOUNT = {
    "type": "gcs", "credential-type": "service-account-key",
    "key": {"client_email": CANARY, "private_key": f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n",
            "private_key_id": CANARY, "token_uri": f"http://{CANARY}@127.0.0.1:9/"},
}  # fmt: skip


def hook(name: str, url: str) -> dict[str, str]:
    """A webhook for the warehouse `demo`, in the environment."""
    headers = json.dumps(webhook_headers(url))
    values = {"TYPE": "webhook", "URL": url, "SECRET": f"s-{CANARY}", "HEADERS": headers, "TIMEOUT_SECONDS": "3", "WAREHOUSES": "demo"}
    return {f"ICECORE_HOOKS__{name.upper()}__{field}": value for field, value in values.items()}


async def make_warehouses(database: str, directory: Path, endpoints: dict[str, str]) -> list[str]:
    """Creates one on each endpoint, and one with an invalid key. Returns their names."""
    warehouses: dict[str, tuple[Json, Json]] = {"gcs": ({"type": "gcs", "bucket": "bucket", "sts-enabled": False}, SERVICE_ACCOUNT)}
    for name, endpoint in endpoints.items():
        profile = {"type": "s3", "bucket": f"lake-{name}", "region": "mars-1", "endpoint": endpoint, "flavor": "s3-compat"}
        warehouses[f"s3-{name}"] = (profile | {"path-style-access": True}, KEY)
    async with opened_catalog(database, directory, skip_storage_validation=True) as catalog:
        for name, (profile, credential) in warehouses.items():
            await create_warehouse(catalog.commands, context("createWarehouse"), CreateWarehouse(name, profile, credential))
    return list(warehouses)


def create_tables(url: str, warehouses: list[str]) -> dict[str, RestResponse]:
    """The responses to creating a table in each. The first request asks all hooks, the others their stores."""

    def create(name: str) -> RestResponse:
        client = RestClient(url, name)
        response = client.create_namespace("a")
        if name != "demo":
            response = client.create_table(["a"], "t")
        client.close()
        return response

    names = ["demo", *warehouses]
    # Concurrently, because each store is retried for some seconds.
    with ThreadPoolExecutor(len(names)) as threads:
        return dict(zip(names, threads.map(create, names), strict=True))


async def test_no_failure_of_a_hook_or_a_store_shows_a_secret(database: str, tmp_path: Path) -> None:
    """Malformed responses, redirects, TLS errors, wrong ports. The operator reads type, host and port; clients read less."""
    async with AsyncExitStack() as opened:
        ports = {name: await opened.enter_async_context(answering(response)) for name, response in RESPONSES.items()}
        hooks: dict[str, str] = {}
        for name, port in ports.items():
            hooks |= hook(name, f"http://127.0.0.1:{port}/hooks/{CANARY}?sig={CANARY}")
        hooks |= hook("user", f"http://user:{CANARY}@127.0.0.1:{ports['garbage']}/hooks/{CANARY}")
        hooks |= hook("tls", f"https://127.0.0.1:{ports['garbage']}/hooks/{CANARY}?token={CANARY}")
        hooks |= hook("port", f"http://127.0.0.1:9/hooks/{CANARY}") | hook("host", f"http://{CANARY}@no-such-host.invalid/{CANARY}")
        hooks |= hook("authority", f"http://user:pa/{CANARY}@127.0.0.1:9/")
        endpoints = {
            name: f"http://127.0.0.1:{port}/{CANARY[:6]}" for name, port in ports.items() if name in ("garbage", "refusal", "header")
        }
        endpoints["port"] = "http://127.0.0.1:9"
        endpoints["tls"] = f"https://127.0.0.1:{ports['garbage']}"
        warehouses = await make_warehouses(database, tmp_path / "warehouse", endpoints)
        log = tmp_path / "log"
        with serving(database, log, ICECORE_LOG_LEVEL="debug", **hooks) as (url, _):
            responses = await asyncio.to_thread(create_tables, url, warehouses)
    for name, response in responses.items():
        assert 503 == response.status, (name, response.body)
        without_canary(f"the response of {name}", response.body.decode() + str(response.headers))
    said = log.read_text()
    without_canary("the log", said)
    assert len(hooks) / 6 == said.count("approval_hook_failed")
    assert "connection refused at 127.0.0.1:9" in said
    with psycopg.connect(database) as connection:
        for row in connection.execute("select e::text, convert_from(e.state, 'utf8') from icecore.events e"):
            without_canary("the events", f"{row[0]} {row[1]}")


async def test_a_session_tag_is_stored_unencrypted(database: str, tmp_path: Path) -> None:
    """This field of a storage profile may have any text, and the log contains it unchanged."""
    profile = {"type": "s3", "bucket": "lake", "region": "mars-1", "flavor": "s3-compat", "sts-session-tags": {"api_key": CANARY}}
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        with pytest.raises(BadRequest, match="sts-session-tags: the property 'api_key'") as refused:
            await create_warehouse(catalog.commands, context("createWarehouse"), CreateWarehouse("lake", profile, KEY))
    assert CANARY not in refused.value.message
