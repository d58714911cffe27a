"""An approval hook that is an HTTP endpoint: it receives the signed change and returns a verdict as JSON."""

import ssl
import time
from io import BytesIO
from typing import Any

import aiohttp
import orjson
from uuid_utils.compat import uuid7

from ..domain.client_errors import address_of, client_error_text
from ..domain.documents import Json
from ..publishers.webhook import signature, signing_key
from .contract import ALLOW, Hold, NoVerdictError, ObjectChange, ProposedChange, Refuse, Verdict
from .settings import WebhookHook

RESPONSE_BYTES_MAX = 64 * 1024
# Members that grow with a table's history. New snapshots are sent separately.
_HISTORY = frozenset({"snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics"})


class InvalidVerdictError(NoVerdictError):
    """The response is not a valid verdict."""


class ApprovalWebhook:
    """The client of one webhook. It must be opened first. The caller sets the timeout."""

    def __init__(self, settings: WebhookHook) -> None:
        self._settings = settings
        self._key = signing_key(settings.secret, settings.secret_file)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        context: ssl.SSLContext | bool = True
        if self._settings.tls_ca_file:
            context = ssl.create_default_context(cafile=self._settings.tls_ca_file)
        headers = {name: value.get_secret_value() for name, value in self._settings.headers.items()}
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout_seconds)
        self._session = aiohttp.ClientSession(timeout=timeout, headers=headers, connector=aiohttp.TCPConnector(ssl=context))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def review(self, change: ProposedChange) -> Verdict:
        """Raises an error if the status is not 200, or the response exceeds RESPONSE_BYTES_MAX or is not a valid verdict. Redirects are not
        followed.
        """
        assert self._session is not None
        message_id, body = str(uuid7()), orjson.dumps(await _message(change))
        headers = {"Content-Type": "application/json", **signature(self._key, message_id, int(time.time()), body)}
        try:
            # As a file, because aiohttp warns of more than a megabyte of bytes.
            async with self._session.post(self._settings.url, data=BytesIO(body), headers=headers, allow_redirects=False) as response:
                if response.status != 200:
                    raise InvalidVerdictError(f"the endpoint returned {response.status}")
                return parse_verdict(await _read(response.content))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            # The error's text may contain the URL with its secrets, headers, and the response.
            raise NoVerdictError(f"the endpoint did not respond: {client_error_text(error, address_of(self._settings.url))}") from None


def parse_verdict(body: bytes) -> Verdict:
    """Parses `{"verdict": "allow"}`, or `refuse` with `reason`, or `hold` with `reason` and `expires-in-seconds`. Raises
    InvalidVerdictError.
    """
    try:
        response = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidVerdictError("the endpoint's response is not JSON") from error
    match response:
        case {"verdict": "allow"}:
            return ALLOW
        case {"verdict": "refuse", "reason": str(reason)}:
            return Refuse(reason)
        case {"verdict": "hold", "reason": str(reason), "expires-in-seconds": int() | float() as seconds} if not isinstance(seconds, bool):
            return Hold(reason, seconds)
    raise InvalidVerdictError(
        "the endpoint's response is not a verdict (allow; refuse with a reason; hold with a reason and expires-in-seconds)"
    )


async def _read(content: aiohttp.StreamReader) -> bytes:
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > RESPONSE_BYTES_MAX:
            raise InvalidVerdictError(f"the endpoint's response is longer than {RESPONSE_BYTES_MAX} bytes")
    return bytes(body)


async def _message(change: ProposedChange) -> Json:
    """The change as JSON; docs/how-to/approval.md explains each member."""
    return {
        "operation": change.operation,
        "actor": change.actor,
        "request-id": change.request_id,
        "warehouse": {"id": change.warehouse_id, "name": change.warehouse_name},
        "approves": change.approves,
        "changes": [await _object(change, each) for each in change.objects],
    }


async def _object(change: ProposedChange, changed: ObjectChange) -> Json:
    # The properties of the namespace that contains the object after the change.
    namespaces = changed.namespaces
    return {
        "kind": changed.kind,
        "id": changed.id,
        "uuid": changed.uuid,
        "name-before": changed.name_before,
        "name": changed.name_after,
        "before": _without_history(changed.before),
        "after": _without_history(changed.after),
        "snapshots-added": _snapshots_added(changed),
        "topics": changed.topics,
        "partial": changed.partial,
        "namespace-properties": await change.namespace_properties(namespaces[-1]) if namespaces else [],
    }


def _without_history(document: Json | None) -> Json | None:
    return None if document is None else {name: value for name, value in document.items() if name not in _HISTORY}


def _snapshots_added(changed: ObjectChange) -> list[Any]:
    if changed.kind != "table" or changed.after is None or changed.partial:
        return []
    held = set() if changed.before is None else {each["snapshot-id"] for each in changed.before["snapshots"]}
    return [each for each in changed.after["snapshots"] if each["snapshot-id"] not in held]
