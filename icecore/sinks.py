"""The sinks of the settings with their publishers, run until they are stopped."""

import asyncio
import gc
import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import structlog

from .publishers.publisher import Publisher
from .publishers.sink import Sink
from .publishers.sink_settings import KafkaSink, NatsSink, SinkSettings, StandardOutputSink, WebhookSink
from .settings import Settings, SettingsError

_log = structlog.get_logger("icecore.sinks")

_OBJECTS_PER_COLLECTION = 500_000
_SWITCH_SECONDS = 0.0005
STOP_SECONDS_MAX = 3.0
"""Limit on a stop. A publisher whose sink does not respond is cancelled. Its position is read from the sink at the next start."""


def sink_makers(settings: Settings) -> dict[str, Callable[[], Sink]]:
    """Functions that open each sink.

    Raises SettingsError for a sink whose client is not installed, and for two sinks with the same destination.
    """
    destinations: dict[object, str] = {}
    for name, sink in settings.sinks.items():
        other = destinations.setdefault(_destination(name, sink), name)
        if other != name:
            raise SettingsError(f"The sinks {other} and {name} have the same destination: each needs its own")
    return {name: _maker(name, sink, settings.public_url or "") for name, sink in settings.sinks.items()}


def publishers(settings: Settings) -> dict[str, Publisher]:
    """One publisher per sink. Raises SettingsError as `sink_makers` does."""
    makers = sink_makers(settings)
    return {
        name: Publisher(settings.dsn, name, makers[name], event_filter=sink.event_filter(), dialect=sink.dialect, start=sink.start)
        for name, sink in settings.sinks.items()
    }


def _destination(name: str, sink: SinkSettings) -> object:
    match sink:
        case NatsSink():
            return ("nats", sink.url, sink.stream)
        case KafkaSink():
            return ("kafka", sink.url, sink.topic)
    return name


def _maker(name: str, sink: SinkSettings, base_url: str) -> Callable[[], Sink]:
    match sink:
        case NatsSink():
            _require("nats", name, "nats")
            from .publishers.jetstream import JetStream

            return partial(JetStream, name, sink, base_url)
        case KafkaSink():
            _require("confluent_kafka", name, "kafka")
            from .publishers.kafka import Kafka

            return partial(Kafka, name, sink, base_url)
        case WebhookSink():
            from .publishers.webhook import Webhook

            return partial(Webhook, name, sink, base_url)
        case StandardOutputSink():
            from .publishers.standard_output import StandardOutput

            return partial(StandardOutput, name, sink, base_url)


def _require(module: str, name: str, extra: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError:
        raise SettingsError(f"The sink {name} needs a client library: install Icecore with the extra {extra}") from None


async def run_publishers(settings: Settings, stop: asyncio.Event) -> None:
    """Runs every sink's publisher until `stop` is set. They are independent of each other."""
    # Objects that exist now are not scanned again. Repeated scans took half of a busy publisher's time.
    gc.freeze()
    # Two batches in flight are 100,000 objects without cycles. At Python's default of 700 they are scanned again and again.
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    # The thread that sends to Kafka needs the interpreter's lock after each commit. At Python's default of 5 ms it waited longer for the
    # lock than for Kafka.
    sys.setswitchinterval(_SWITCH_SECONDS)
    running = [asyncio.create_task(each.run(stop), name=f"sink-{name}") for name, each in publishers(settings).items()]
    try:
        await stop.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await asyncio.gather(*running, return_exceptions=True)
    finally:
        for task in running:
            task.cancel()
        for task, result in zip(running, await asyncio.gather(*running, return_exceptions=True), strict=True):
            if isinstance(result, Exception):
                _log.error("publisher_stopped", sink=task.get_name(), exc_info=result)
