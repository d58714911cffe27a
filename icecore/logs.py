"""Structured logs on standard error, as text or JSON lines, with the request id and without secrets."""

import json
import logging
import re
import sys
import threading
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from functools import lru_cache, partial
from math import isfinite
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import orjson
import structlog

from .secret_names import SECRET_NAME

if TYPE_CHECKING:
    from .settings import Settings

_log = structlog.get_logger("icecore.logs")

REDACTED = "***"
_TEXT_LENGTH_MAX = 4_096
"""The longest text of one value. An error's text may quote a client."""

_REDACTED_TEXT_LENGTH_MAX = 16 * 1024
"""The longest text that is searched for secrets. It is redacted before it is shortened, so that no part of a secret is left at the end."""
_TRACE_LENGTH_MAX = 32 * 1024
"""The longest trace. Its first and last halves are shown; twice as much of each is searched."""
_NAMES_OF_IDS = frozenset({"secret_ref", "secret_id", "idempotency_key"})
_NAMES_OF_OURS = frozenset({"level", "logger", "timestamp"})
_NAMES_OF_TRACES = frozenset({"exception", "stack"})
_SHOWN_AS_REPR = frozenset(" \t=\r\n\"'")
"""Texts with one of these are shown as their repr by structlog's console, which escapes what is not printable."""
_DEPTH_MAX = 20
"""How deep a record that orjson cannot encode is copied. Deeper values are shown as text."""

# A password that is not encoded may contain `/` and `@`, so everything up to the last `@` is redacted.
_USER_INFORMATION = re.compile(r"(?P<scheme>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://)[^\s/@:'\"]*:", re.IGNORECASE)
_RUN = re.compile(r"[^\s'\"]+")
# `abfss://container@account` contains no user.
_USER = re.compile(r"(?P<scheme>(?<![a-z0-9+.-])(?!abfss?:|wasbs?:)[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@", re.IGNORECASE)
_KEY_VALUE = re.compile(
    r"(?<![a-z0-9_])(?P<name>(?:"
    r"(?:ssl)?password|passwd|pwd|passphrase|(?:client[_-]?)?secret|(?:aws[_-])?secret[_-]?(?:access[_-]?)?key"
    r"|(?:(?:access|refresh|id|session|auth|sas)[_-]?)?token|(?:api|account|private)[_-]?key|shared[_-]?access[_-]?(?:key|signature)"
    r"|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|signature|credential|sig"
    r")(?:=|['\"]\s*[:=]\s*b?))(?:'[^']*'|\"[^\"]*\"|[^\s&,;'\")}]+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(?P<scheme>bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
# A text without any of these contains nothing to redact. Most texts are names and paths.
_BETWEEN_NAME_AND_VALUE = re.compile(r"[:=\s]")
_HEADER = re.compile(
    r"(?P<name>\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token|x-amz-security-token)['\"]?\s*[:=]\s*(?:b?['\"])?)"
    r"(?P<scheme>(?:(?:bearer|basic)\s+)?)[^\r\n'\"]+",
    re.IGNORECASE,
)


def configure_logs(
    level: Literal["debug", "info", "warning", "error"], form: Literal["console", "json"], secrets: Collection[str] = ()
) -> None:
    """Sends structlog's and the standard library's records through one chain to standard error.

    secrets -- texts that are redacted.
    """
    redacting = partial(redact, secrets=_any_of(secrets))
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    ending: list[structlog.typing.Processor]
    if form == "json":
        ending = [structlog.processors.format_exc_info, redacting, structlog.processors.JSONRenderer(_json)]
    else:
        console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ending = [structlog.processors.format_exc_info, redacting, _escape_invisible, console]
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
    _quieten_libraries()
    logging.captureWarnings(True)


def _quieten_libraries() -> None:
    # Libraries log internal details at these levels, including connection strings.
    for library in ("asyncio", "psycopg", "aiohttp", "eventsourcing"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # The callers of the pool log its failures.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    # Their requests and responses contain credentials; storage/renewed_credentials.py reports failures.
    for library in ("botocore", "urllib3", "google.auth", "azure", "msal"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


def configure_logs_for(settings: "Settings", secret_keys: Sequence[str] = ()) -> None:
    """Configures logging as the settings say, and redacts their secrets.

    secret_keys -- keys that were read from files of the settings earlier. They are redacted too.
    """
    # Imports the driver of Postgres, which not every command needs.
    from .known_secrets import known_secrets

    configure_logs(settings.log_level, settings.log_format, known_secrets(settings, secret_keys))


def log_uncaught() -> None:
    """Logs uncaught exceptions of all threads through the same chain. Python's own output would not redact secrets."""

    def uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        _log.critical("uncaught_exception", exc_info=(kind, error, trace))

    sys.excepthook = uncaught
    threading.excepthook = lambda given: uncaught(given.exc_type, given.exc_value, given.exc_traceback)
    sys.unraisablehook = lambda given: uncaught(given.exc_type, given.exc_value, given.exc_traceback)


def redact(
    _logger: Any, _method: str, record: MutableMapping[str, Any], *, secrets: re.Pattern[str] | None = None
) -> MutableMapping[str, Any]:
    """Redacts `secrets`, fields with the name of a secret, and passwords of URLs, tokens and signatures inside texts."""
    for name, value in record.items():
        if name not in _NAMES_OF_OURS:
            record[name] = REDACTED if _is_secret_field(name) else _clean(value, secrets)
    return record


@lru_cache(maxsize=256)
def _is_secret_field(name: str) -> bool:
    """Whether a field of a record has the name of a secret."""
    return _is_secret(name)


def _is_secret(name: str) -> bool:
    return name not in _NAMES_OF_IDS and SECRET_NAME.search(name) is not None


def _any_of(secrets: Collection[str]) -> re.Pattern[str] | None:
    """Longest first, because one secret may be the beginning of another."""
    return re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True)))) if secrets else None


def _clean(value: Any, secrets: re.Pattern[str] | None) -> Any:
    match value:
        case str():
            return _redact_text(value, secrets)
        case bytes() | bytearray() | memoryview():
            return f"<{len(value)} bytes>"
        case Mapping():
            return {
                _clean(name, secrets) if isinstance(name, str) else name: REDACTED if _is_secret(str(name)) else _clean(inner, secrets)
                for name, inner in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [_clean(inner, secrets) for inner in value]
        case bool() | int() | float() | None:
            return value
        case BaseException():
            return _redact_text(f"{type(value).__name__}: {value}", secrets)
        case _:
            # Other objects are shown as their text.
            return _redact_text(str(value), secrets)


def _redact_text(text: str, secrets: re.Pattern[str] | None = None) -> str:
    length = len(text)
    if text.startswith("Traceback"):
        if length <= _TRACE_LENGTH_MAX:
            return _blank(text, secrets)
        half = _TRACE_LENGTH_MAX // 2
        first, last = _blank(text[: 2 * half], secrets)[:half], _blank(text[-2 * half :], secrets)[-half:]
        return f"{first}…\n({length} characters)\n…{last}"
    text = _blank(text[:_REDACTED_TEXT_LENGTH_MAX], secrets)
    return f"{text[:_TEXT_LENGTH_MAX]}… ({length} characters)" if length > _TEXT_LENGTH_MAX else text


def _blank(text: str, secrets: re.Pattern[str] | None) -> str:
    """Takes linear time in the length of the text, because clients choose the text."""
    if secrets is not None:
        text = secrets.sub(REDACTED, text)
    if _BETWEEN_NAME_AND_VALUE.search(text) is None:
        return text
    if "@" in text:
        text = _RUN.sub(_blank_user_information, text)
        text = _USER.sub(rf"\g<scheme>{REDACTED}@", text)
    text = _HEADER.sub(rf"\g<name>\g<scheme>{REDACTED}", text)
    text = _KEY_VALUE.sub(rf"\g<name>{REDACTED}", text)
    return _BEARER.sub(rf"\g<scheme> {REDACTED}", text)


def _blank_user_information(run: re.Match[str]) -> str:
    """Redacts the user information between a scheme and the last `@` before a space."""
    before, at, after = run[0].rpartition("@")
    found = _USER_INFORMATION.search(before) if at else None
    return run[0] if found is None else f"{before[: found.end('scheme')]}{REDACTED}@{after}"


def _json(record: Any, **_options: Any) -> str:
    try:
        text = orjson.dumps(record, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # Half of a surrogate pair, an integer of more than 64 bits, or deep nesting.
        return json.dumps(_encodable(record))
    # JSON permits most control and bidi characters as they are. Terminals interpret them, and some readers of logs end a line there.
    return text if text.isprintable() else "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _encodable(value: Any, depth: int = 0) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case Mapping() if depth < _DEPTH_MAX:
            return {_encodable(str(name)): _encodable(inner, depth + 1) for name, inner in value.items()}
        case list() | tuple() if depth < _DEPTH_MAX:
            return [_encodable(inner, depth + 1) for inner in value]
        case bool() | None:
            return value
        case int():
            return value if value.bit_length() < 64 else hex(value)
        case float() if isfinite(value):
            return value
        case _:
            return _encodable(str(value))


def _escape_invisible(_logger: Any, _method: str, record: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escapes control and bidi characters in texts that the console prints unquoted, because clients choose these texts."""
    for name, value in record.items():
        if not isinstance(value, str) or value.isprintable():
            continue
        if name in _NAMES_OF_TRACES:
            record[name] = "".join(each if each in "\n\t" or each.isprintable() else _escaped(each) for each in value)
        elif name == "event" or _SHOWN_AS_REPR.isdisjoint(value):
            record[name] = "".join(each if each.isprintable() else _escaped(each) for each in value)
    return record


def _escaped(character: str) -> str:
    return ascii(character)[1:-1]
