"""Structured logs on standard error: for people or as JSON lines, with the request id, and without secrets."""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
import structlog

from icecore.settings import Settings

REDACTED = "***"
_TEXT_LENGTH_MAX = 4_096
"""Of one value: an error's text may quote what a client sent."""

_SECRET_NAMES = re.compile(
    r"(password|passwd|secret|token|credential|authorization|cookie|private.?key|access.?key|api.?key|sas|dsn|database_url)", re.IGNORECASE
)
_NAMES_OF_IDS = frozenset({"secret_ref", "secret_id", "idempotency_key"})
_USER_INFORMATION = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s:@]*:[^/\s@]*@", re.IGNORECASE)
_KEY_VALUE = re.compile(r"\b(?P<name>password|passwd|sslpassword|secret[_-]?key|x-amz-signature|sig)=(?:'[^']*'|[^\s&]+)", re.IGNORECASE)
_BEARER = re.compile(r"\b(?P<scheme>bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)


def configure_logs(level: Literal["debug", "info", "warning", "error"], form: Literal["console", "json"]) -> None:
    """Sends structlog's and the standard library's records through one chain to standard error."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    ending: list[structlog.typing.Processor]
    if form == "json":
        ending = [structlog.processors.format_exc_info, redact, structlog.processors.JSONRenderer(_json)]
    else:
        console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ending = [structlog.processors.format_exc_info, redact, console]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_logger_name,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending]
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # Libraries speak of their own affairs at these levels, connection strings included.
    for library in ("asyncio", "psycopg", "psycopg.pool", "aiohttp", "eventsourcing"):
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.captureWarnings(True)


def configure_logs_for(settings: Settings) -> None:
    """As the settings say."""
    configure_logs(settings.log_level, settings.log_format)


def redact(_logger: Any, _method: str, record: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Blanks what is named like a secret, and what looks like one inside texts: passwords of URLs, bearer tokens, signatures."""
    for name, value in record.items():
        record[name] = REDACTED if _is_secret(name) else _clean(value)
    return record


def redacted_url(url: str) -> str:
    """Where a database is, for people: without the password, and without a query that may hold one."""
    if "://" not in url:
        return _redact_text(url)
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


def _is_secret(name: str) -> bool:
    return name not in _NAMES_OF_IDS and _SECRET_NAMES.search(name) is not None


def _clean(value: Any) -> Any:
    match value:
        case str():
            return _redact_text(value)
        case bytes() | bytearray() | memoryview():
            return f"<{len(value)} bytes>"
        case Mapping():
            return {name: REDACTED if _is_secret(str(name)) else _clean(inner) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_clean(inner) for inner in value]
        case BaseException():
            return _redact_text(f"{type(value).__name__}: {value}")
        case _:
            return value


def _redact_text(text: str) -> str:
    if len(text) > _TEXT_LENGTH_MAX and not text.startswith("Traceback"):
        text = f"{text[:_TEXT_LENGTH_MAX]}… ({len(text)} characters)"
    text = _USER_INFORMATION.sub(rf"\g<scheme>{REDACTED}@", text)
    text = _KEY_VALUE.sub(rf"\g<name>={REDACTED}", text)
    return _BEARER.sub(rf"\g<scheme> {REDACTED}", text)


def _json(record: Any, **_options: Any) -> str:
    return orjson.dumps(record, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
