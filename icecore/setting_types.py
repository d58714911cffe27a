"""Types of settings, with error messages in plain words."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from .storage.cloud_profiles import Endpoint


def _written_as(pattern: str, rule: str) -> AfterValidator:
    """Refuses a text that does not match; the message describes the format."""
    wanted = re.compile(pattern)

    def check(text: str) -> str:
        if wanted.fullmatch(text) is None:
            raise ValueError(rule)
        return text

    return AfterValidator(check)


ReservedName = Annotated[str, Field(min_length=1, max_length=255)]
"""The name of a namespace."""
HostName = Annotated[
    str,
    Field(max_length=255),
    _written_as(
        r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*",
        "each must be a host name or an address, such as catalog.example.org or fd00::1: without scheme, port, brackets, path and '*'",
    ),
]
"""A host name or address as in a Host header, without port and brackets."""
Origin = Annotated[
    str,
    Field(max_length=300),
    _written_as(
        r"https?://[^/?#@\s]+",
        "each must be an origin of web pages, such as https://app.example.org or http://localhost:3000: without path, user and '*'",
    ),
]


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise ValueError("each must be an address or a network, such as 10.0.0.7 or 10.0.0.0/8, without bits after its prefix") from None


Network = Annotated[str, Field(max_length=64), AfterValidator(_network)]
Separator = Annotated[str, _written_as(r"[.:|~$;!@]", "must be one of the characters . : | ~ $ ; ! @")]
PublicUrl = Annotated[
    str,
    _written_as(
        r"https?://[^/\n]+.*[^/\n]", "must be an http or https URL without a slash at its end, such as https://catalog.example.org"
    ),
]

_STORE_RULE = "each must be the http or https URL of a store, such as https://minio.example.org:9000: without user, query and '*'"


def _store(text: str) -> str:
    try:
        Endpoint.parse(text)
    except ValueError:
        raise ValueError(_STORE_RULE) from None
    return text


StoreEndpoint = Annotated[
    str,
    Field(max_length=300),
    _written_as(r"https?://([^/?#@\s:\[\]*]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[^?#@\s]*)?", _STORE_RULE),
    AfterValidator(_store),
]


def _absolute(path: Path) -> Path:
    if not path.is_absolute() or ".." in path.parts or len(path.parts) == 1:
        raise ValueError("each must be an absolute path without '..', not the root")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
