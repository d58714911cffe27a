"""A batch for JetStream is done when every message is acknowledged."""

from typing import cast

from nats.aio.client import Client
from nats.aio.msg import Msg

from icecore.publishers.jetstream import JetStream
from icecore.publishers.sink_settings import NatsSink


async def test_a_batch_waits_for_its_last_response() -> None:
    """In any order, even if an acknowledgement arrives twice."""
    sink = JetStream("s", NatsSink(type="nats", url="nats://a:1"), "")  # type: ignore[arg-type]
    sink._responses_expected = 3
    done = []
    for sequence in (7, 9, 7, 8):
        await sink._on_response(Msg(_client=cast("Client", None), subject=f"inbox.{sequence}"))
        done.append(sink._all_responded.is_set())
    assert [False, False, False, True] == done
