"""What is said of a client library's error: where the other side is, and no part of a password that was not encoded."""

import pytest

from icecore.domain.client_errors import address_of, client_error_text


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://h.example/services/secret?sig=secret", "h.example"),
        ("https://user:secret@h.example:8443/x", "h.example:8443"),
        ("nats://[::1]:4222", "[::1]:4222"),
        ("h.example:9092", "h.example:9092"),
        # A name with `@` and a password with `/`: what looks like a host and a port is half of both.
        ("https://me@corp:12345/secret@h.example/x", ""),
        ("https://user:12345/secret@h.example/x", ""),
        ("https://user:se?cret@h.example", ""),
        ("https://user:se#cret@h.example", ""),
        ("https://user:secret@h.example:port", ""),
    ],
)
def test_an_address_is_host_and_port_alone(url: str, address: str) -> None:
    """Empty where it cannot be told apart from a password."""
    assert address == address_of(url)


def test_an_error_is_its_types_an_address_and_well_known_phrases() -> None:
    """Those of its causes too, each once; of its text nothing else."""
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
def test_a_wrong_name_in_a_database_url_is_told_apart_from_a_server_that_is_away(text: str, said: str) -> None:
    """Without the name: it stands in a setting."""
    assert f"ConnectionError at h:1 ({said})" == client_error_text(ConnectionError(text), "h:1")
