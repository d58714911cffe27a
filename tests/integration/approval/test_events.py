"""Events and metrics of proposals, for an approver's service and for operators."""

import asyncio
import urllib.request
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import psycopg

from icecore.approval.contract import Hold
from icecore.log.follow import read_events
from icecore.publishers.cloud_events import encode_json, outgoing
from icecore.publishers.enricher import EventEnricher
from icecore.publishers.event_filter import EventFilter
from icecore.publishers.event_schemas import event_schemas
from tests.fixtures.catalog import CatalogServer, opened_catalog
from tests.fixtures.rest_client import set_properties
from tests.integration.approval.judging import Approver, Judge, asking, held
from tests.integration.test_metrics import metrics_url

HOLD = Hold("somebody should look", 60.0)


async def published(dsn: str, event_filter: EventFilter) -> list[dict[str, Any]]:
    """The events that a sink with that filter publishes."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        events = await read_events(connection, 0, 1_000)
        described = (await EventEnricher().enrich(connection, [event for event in events if event_filter.may_match(event)])).events
        return [orjson.loads(encode_json(outgoing(each, "icecore"))) for each in described if event_filter.matches(each)]


def test_an_approvers_service_gets_every_step(client: Approver, judge: Judge, server: CatalogServer) -> None:
    """With a filter on proposals and the warehouse. Each event contains everything needed to inform a person and to decide."""
    judge.always(HOLD)
    approved, rejected = (held(client.commit(["a"], "t", set_properties(k=value))) for value in "vw")
    client.approve(approved)
    client.reject(rejected, "not now")
    events = asyncio.run(published(server.dsn, EventFilter.parse(types=("proposal.*",), warehouses=("demo",))))
    steps = [(event["type"].removeprefix("io.icecore."), event["subject"]) for event in events]
    assert steps == [
        ("proposal.opened.v1", approved),
        ("proposal.opened.v1", rejected),
        ("proposal.approved.v1", approved),
        ("proposal.rejected.v1", rejected),
    ]
    for event in events:
        jsonschema_rs.validator_for(event_schemas()[event["type"]]).validate(event["data"])
        data = event["data"]
        assert ("demo", "updateTable", "judge0", "somebody should look") == (
            data["warehouse"]["name"],
            data["operation"],
            data["hook"],
            data["reason"],
        )
        assert [("table", ["a", "t"])] == [(each["kind"], each["name"]) for each in data["objects"]]
    assert ["open", "open", "approved", "rejected"] == [event["data"]["status"] for event in events]
    assert "not now" == events[-1]["data"]["decision-reason"]


async def test_hooks_are_among_the_metrics(database: str, tmp_path: Path) -> None:
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        asking(Judge())(catalog)
        assert catalog.commands.decision_writer.approval_hooks is not None
        catalog.commands.decision_writer.approval_hooks.metrics.verdicts["judge0", "failure"] += 2
        catalog.commands.decision_writer.approval_hooks.metrics.seconds["judge0"] += 1.5
        async with metrics_url(catalog) as url:
            text = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=30).read().decode())
    assert 'icecore_approval_verdicts_total{hook="judge0",verdict="failure"} 2.0' in text
    assert 'icecore_approval_seconds_total{hook="judge0"} 1.5' in text
