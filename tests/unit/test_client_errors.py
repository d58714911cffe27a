"""Descriptions of client libraries' errors contain the peer's address, but no part of an unencoded password."""

import pytest

from icecore.domain.client_errors import address_of, client_error_text


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://h.example/services/secret?sig=secret", "h.example"),
        ("https://user:secret@h.example:8443/x", "h.example:8443"),
        ("nats://[::1]:4222", "[::1]:4222"),
        ("h.example:9092", "h.example:9092"),
        # A name with `@` and a password with `/`: what looks like host and port is part of both.
        ("https://me@corp:12345/secret@h.example/x", ""),
        ("https://user:12345/secret@h.example/x", ""),
        ("https://user:se?cret@h.example", ""),
        ("https://user:se#cret@h.example", ""),
        ("https://user:secret@h.example:port", ""),
    ],
)
def test_an_address_is_host_and_port_alone(url: str, address: str) -> None:
    """Empty if it may be part of a password."""
    assert address == address_of(url)


def test_an_error_is_its_types_an_address_and_well_known_phrases() -> None:
    """Also of its causes, each once; no other text."""
    cause = OSError("password=secret")
    error = ConnectionError("secret: Authentication failed for user")
    error.__cause__ = cause
    assert "ConnectionError, OSError at h:1 (authentication failed)" == client_error_text(error, "h:1")
    assert "OSError" == client_error_text(cause)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('connection failed: FATAL:  database "secret" does not exist', "database does not exist"),
        ('connection failed: FATAL:  role "secret" does not exist', "role does not exist"),
        ('connection failed: FATAL:  role "secret" is not permitted to log in', "role is not permitted to log in"),
        ('FATAL:  permission denied for database "secret"', "permission denied for database"),
    ],
)
def test_a_wrong_name_in_a_database_url_differs_from_an_unreachable_server(text: str, said: str) -> None:
    """The message does not contain the name, which is part of a setting."""
    assert f"ConnectionError at h:1 ({said})" == client_error_text(ConnectionError(text), "h:1")
