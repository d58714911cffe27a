"""Webhooks: one signed POST for each event, in order, repeated until the endpoint returned 2xx."""

import asyncio
import base64
import hmac
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import ClassVar

import aiohttp
from pydantic import SecretStr

from ..domain.client_errors import address_of, client_error_text
from .cloud_events import EncodedMessage, OutgoingEvent, encode_http
from .setting_files import read_secret, require_file
from .sink import Checkpoint, SinkError, SinkPosition, SinkRefusedError
from .sink_settings import WebhookSink

CLOSE_SECONDS_MAX = 1.0
RETRY_AFTER_SECONDS_MAX = 60.0
"""Limit on the pause that an endpoint can request, so that publishing resumes soon after operators resolve a problem."""
_SECRET_PREFIX = "whsec_"  # noqa: S105 -- the mark of a secret, none itself
_DIGITS_MAX = 9
# The endpoint has read the event and refuses it; all other statuses may be temporary.
_REFUSALS = frozenset({400, 405, 406, 409, 410, 411, 413, 414, 415, 422, 431, 501})


class Webhook:
    """An HTTP endpoint. Its position is stored in Postgres, because it cannot report one."""

    STORES_POSITION: ClassVar[bool] = False
    BATCH_EVENTS_MAX: ClassVar[int] = 20

    def __init__(self, name: str, settings: WebhookSink, base_url: str) -> None:
        self._name = name
        self._settings = settings
        self._base_url = base_url
        self._key = signing_key(settings.secret, settings.secret_file)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> SinkPosition:
        context: ssl.SSLContext | bool = True
        require_file("tls_ca_file", self._settings.tls_ca_file)
        if self._settings.tls_ca_file:
            context = ssl.create_default_context(cafile=self._settings.tls_ca_file)
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout_seconds)
        headers = {name: value.get_secret_value() for name, value in self._settings.headers.items()}
        connector = aiohttp.TCPConnector(ssl=context)
        self._session = aiohttp.ClientSession(timeout=timeout, headers=headers, connector=connector)
        return SinkPosition(None, 0)

    async def publish(self, events: Sequence[OutgoingEvent], live: Checkpoint | None) -> int:
        acknowledged: int | None = None
        for event in events:
            try:
                await self._post(event)
            except SinkError as error:
                error.acknowledged = acknowledged
                raise
            acknowledged = event.position
        return 0

    async def close(self) -> None:
        if self._session is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await self._session.close()
            self._session = None

    async def _post(self, event: OutgoingEvent) -> None:
        """Raises SinkError unless the response is 2xx. Of other responses, only Retry-After is read; redirects are not followed."""
        assert self._session is not None
        message = self._encoded(event)
        headers = {**message.headers, **signature(self._key, event.id, int(time.time()), message.body)}
        try:
            async with self._session.post(self._settings.url, data=message.body, headers=headers, allow_redirects=False) as response:
                status, retry_after = response.status, response.headers.get("Retry-After")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            # Its text may contain the URL with secrets, headers, and the endpoint's response.
            raise SinkError(f"the endpoint did not respond: {client_error_text(error, address_of(self._settings.url))}") from None
        if status in _REFUSALS:
            raise SinkRefusedError(event, f"the endpoint returned {status}")
        if not 200 <= status < 300:
            problem = SinkError(f"the endpoint returned {status} for position {event.position}")
            problem.retry_after_seconds = retry_after_seconds(retry_after, datetime.now(UTC))
            raise problem

    def _encoded(self, event: OutgoingEvent) -> EncodedMessage:
        message = encode_http(event, self._settings.mode)
        if message.bytes_count > self._settings.event_bytes_max:
            message = encode_http(event.with_reference(self._base_url), self._settings.mode)
        return message


def retry_after_seconds(header: str | None, now: datetime) -> float:
    """The pause that the endpoint requests (RFC 9110, 10.2.3: seconds or a date), at most RETRY_AFTER_SECONDS_MAX; 0 if invalid."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        # A number may have thousands of digits.
        return min(float(text[:_DIGITS_MAX]), RETRY_AFTER_SECONDS_MAX)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), RETRY_AFTER_SECONDS_MAX)


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks: HMAC-SHA256 over id, time and body, against modification and replay."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    digest = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{digest}"}


def signing_key(secret: SecretStr | None, secret_file: Path | None) -> bytes:
    """The key for signatures, from the setting that is set.

    Raises SinkError for a file that cannot be read, and for a secret that is empty or not what its prefix says.

    A secret `whsec_<base64>` is decoded, as in Standard Webhooks; any other is used unchanged.
    """
    setting = "secret_file" if secret is None else "secret"
    if secret is not None:
        text = secret.get_secret_value()
    else:
        assert secret_file is not None
        text = read_secret(setting, secret_file).strip()
    try:
        encoded = text.startswith(_SECRET_PREFIX)
        key = base64.b64decode(text.removeprefix(_SECRET_PREFIX), validate=True) if encoded else text.encode()
    except ValueError:
        raise SinkError(f"what follows {_SECRET_PREFIX} in the setting {setting} is not base64") from None
    if not key:
        raise SinkError(f"the setting {setting} contains no secret, which must sign the requests")
    return key
