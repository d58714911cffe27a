"""What is said of a client library's error: where the other side is, and no part of a password that was not encoded."""

import pytest

from domain.client_errors import address_of


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
