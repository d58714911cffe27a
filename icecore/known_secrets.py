"""The secrets of the settings, in every form that a client library may write them, so that logs can hide them."""

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import BaseModel, SecretStr

from .secret_names import SECRET_NAME

LENGTH_MIN = 6
"""The shortest secret that is redacted. Shorter ones occur in ordinary words."""
_PATH_LENGTH_MIN = 12
"""The shortest path of a URL that is redacted. Secret paths of webhooks are longer, and `/hook` is not secret."""
_FILE_BYTES_MAX = 64 * 1024
_PUBLIC = frozenset({"public_url"})
_PUBLIC_PATHS = frozenset({"data_dir", "embedded_state_dir", "local_warehouse_roots", "tls_ca_file"})
"""Paths of folders, and of files without secrets. Every other file may contain one, also that of a new setting."""


def known_secrets(settings: BaseModel, more: Iterable[str] = ()) -> frozenset[str]:
    """Every secret of the settings, of the files they name, and of `more`, in plain form and as URLs, JSON, Python and base64 encode it."""
    return frozenset(form for secret in chain(_secrets(dict(settings)), more) for form in _forms(secret) if len(form) >= LENGTH_MIN)


def _secrets(values: dict[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield from _of_value(name, value)


def _of_value(name: str, value: Any) -> Iterator[str]:
    match value:
        case SecretStr():
            yield from _of_secret(value.get_secret_value())
        case BaseModel():
            yield from _secrets(dict(value))
        case dict():
            yield from _secrets({str(key): member for key, member in value.items()})
        case tuple() | list():
            for member in value:
                yield from _of_value(name, member)
        case Path() if name not in _PUBLIC_PATHS:
            yield from _of_file(value, of_properties=name == "config_file")
        case str() if "://" in value and name not in _PUBLIC:
            yield from _of_url(value)
        case str() if SECRET_NAME.search(name):
            yield value


def _of_secret(text: str) -> Iterator[str]:
    """The secret parts of one setting. Of a database URL only the password is secret."""
    yield text
    if "://" in text or "=" in text:
        yield from _of_url(text)
        try:
            given = conninfo_to_dict(text)
        except psycopg.Error:
            return
        yield from (str(given[name]) for name in ("password", "sslpassword", "passfile") if given.get(name))


def _of_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
    except ValueError:
        return
    if password:
        yield password
        yield base64.b64encode(f"{unquote(user or '')}:{unquote(password)}".encode()).decode()
    elif user and parts.scheme not in ("postgresql", "postgres"):
        yield user
    if parts.scheme in ("http", "https"):
        if len(parts.path) >= _PATH_LENGTH_MIN:
            yield parts.path
        yield from (value for _, value in parse_qsl(parts.query))


def _of_file(path: Path, *, of_properties: bool) -> Iterator[str]:
    """The secrets in a file: its lines, or in a properties file (`name=value`) the values of secret names. Empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX).decode()
    except (OSError, ValueError):
        return
    for line in map(str.strip, text.splitlines()):
        name, equals, value = line.partition("=")
        if not of_properties:
            yield line
        elif equals and SECRET_NAME.search(name):
            yield value.strip()


def _forms(secret: str) -> Iterator[str]:
    for plain in {secret, unquote(secret)}:
        yield plain
        yield quote(plain)
        yield quote(plain, safe="")
        yield quote_plus(plain)
        yield repr(plain)[1:-1]
        yield json.dumps(plain)[1:-1]
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        yield base64.b64encode(plain.encode()).decode()
