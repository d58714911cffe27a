"""Settings of sinks: `[sinks.NAME]` in the settings file, `ICECORE_SINKS__NAME__…` in the environment."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator

from .event_data import Dialect, Mode
from .event_filter import EventFilter
from .setting_values import Words, parsed_object, revealed
from .webhook_settings import WebhookSettings

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE


class _Sink(BaseModel):
    """The settings of every sink.

    start -- where a new sink begins: at the first event, or after the last one.
    event_bytes_max -- larger events are sent with `dataref`; a broker's own limit applies too, if the broker reports it.
    """

    model_config = ConfigDict(allow_inf_nan=False, extra="forbid", frozen=True, hide_input_in_errors=True)

    types: Words = ()
    warehouses: Words = ()
    namespaces: Words = ()
    mode: Mode = "structured"
    dialect: Dialect = "icecore"
    start: Literal["beginning", "now"] = "beginning"
    event_bytes_max: int = Field(default=1_000_000, ge=4 * KIBIBYTE, le=256 * MEBIBYTE)
    timeout_seconds: float = Field(default=10.0, gt=0, le=600)

    @model_validator(mode="after")
    def _check_filter(self) -> "_Sink":
        self.event_filter()
        return self

    def event_filter(self) -> EventFilter:
        return EventFilter.parse(self.types, self.warehouses, self.namespaces)

    def to_json(self) -> dict[str, Any]:
        """Every value, including secrets in plain text: only for a pipe to a child process, never for a file or a log."""
        plain: dict[str, Any] = revealed({name: value for name, value in self if value is not None})
        return plain


class NatsSink(_Sink):
    """A JetStream stream that is used by this sink only.

    subject -- the prefix: events go to `<subject>.<warehouse id>.<kind>.<verb>`. create -- create the stream if it does not exist.
    """

    type: Literal["nats"]
    url: Words
    stream: str = Field(default="ICECORE", pattern=r"^[^\s.*>/\\]+$", max_length=255)
    subject: str = Field(default="icecore", pattern=r"^[^\s.*>]+(\.[^\s.*>]+)*$", max_length=200)
    create: bool = True
    replicas: int = Field(default=1, ge=1, le=5)
    duplicate_window_seconds: float = Field(default=120.0, gt=0)
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    credentials_file: Path | None = None
    nkey_seed_file: Path | None = None
    tls_ca_file: Path | None = None
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not all(each.partition("://")[0] in ("nats", "tls", "ws", "wss") for each in value):
            raise ValueError("url must be one or more of nats://HOST:PORT, tls://…, ws://… or wss://…, separated by commas")
        return value


class KafkaSink(_Sink):
    """A Kafka topic that is used by this sink only, and a compacted topic with the sink's position.

    url -- bootstrap servers. config -- librdkafka properties (`security.protocol`, `sasl.mechanism`, …); config_file -- the same as lines
    `name=value`. transactional_id -- must be unique in the cluster.
    """

    type: Literal["kafka"]
    url: Words
    topic: str = Field(default="icecore.events", pattern=r"^[a-zA-Z0-9._-]+$", max_length=230)
    checkpoint_topic: str | None = Field(default=None, pattern=r"^[a-zA-Z0-9._-]+$", max_length=249)
    transactional_id: str | None = None
    create: bool = True
    partitions: int = Field(default=1, ge=1)
    replicas: int = Field(default=1, ge=1)
    config: Annotated[dict[str, str], BeforeValidator(parsed_object)] = {}
    config_file: Path | None = None
    user: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    tls: bool = False
    tls_ca_file: Path | None = None
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("url must be HOST:PORT of one or more brokers, separated by commas")
        return value


class WebhookSink(WebhookSettings, _Sink):
    """An HTTP endpoint that receives one event per POST, in the order of the log, signed according to Standard Webhooks."""

    type: Literal["webhook"]


class StandardOutputSink(_Sink):
    """One line of JSON per event on standard output."""

    type: Literal["stdout"]


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", name):
        raise ValueError("the name must be lower-case letters, digits, - and _, at most 63, and begin with a letter or digit")
    return name


SinkSettings = Annotated[NatsSink | KafkaSink | WebhookSink | StandardOutputSink, Field(discriminator="type")]
SinkName = Annotated[str, AfterValidator(_checked_name)]
SINK_FIELDS: frozenset[str] = frozenset().union(*(sink.model_fields for sink in (NatsSink, KafkaSink, WebhookSink, StandardOutputSink)))
"""All settings of sinks."""
