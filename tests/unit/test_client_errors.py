"""Descriptions of client libraries' errors contain the peer's address, but no part of an unencoded password."""

import asyncio
import ssl

import aiohttp
import psycopg
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


def test_an_error_without_a_well_known_phrase_is_its_types_and_an_address() -> None:
    """Also the types of its causes, each once; no text."""
    cause = OSError("password=secret")
    error = ConnectionError("secret: something failed for user")
    error.__cause__ = cause
    assert "ConnectionError, OSError at h:1" == client_error_text(error, "h:1")
    assert "OSError" == client_error_text(cause)


def test_an_error_with_a_well_known_phrase_is_this_phrase_and_an_address() -> None:
    """No class name of Python, and no other text."""
    assert "authentication failed at h:1" == client_error_text(ConnectionError("secret: Authentication failed for user"), "h:1")
    refused = ConnectionError('FATAL:  password authentication failed for user "u"')
    assert "password authentication failed at h:1" == client_error_text(refused, "h:1")
    assert "no such file or directory" == client_error_text(FileNotFoundError(2, "No such file or directory", "secret"))
    assert "no response in time at h:1" == client_error_text(TimeoutError(), "h:1")
    error = psycopg.errors.TooManyConnections("FATAL: sorry, too many clients already")
    assert "too many clients, SQLSTATE 53300 at h:1" == client_error_text(error, "h:1")


def test_the_number_of_an_error_of_openssl_is_no_errno() -> None:
    """1 would be EPERM."""
    assert "SSLError" == client_error_text(ssl.SSLError(1, "secret"))


async def test_a_closed_port_is_a_refused_connection() -> None:
    """By the clients of HTTP and Postgres, and a socket."""
    with pytest.raises(aiohttp.ClientConnectorError) as http:
        async with aiohttp.ClientSession() as session:
            await session.get("http://127.0.0.1:1/")
    with pytest.raises(psycopg.OperationalError) as database:
        await psycopg.AsyncConnection.connect("postgresql://user:secret@127.0.0.1:1/secret")
    with pytest.raises(ConnectionRefusedError) as socket:
        await asyncio.open_connection("127.0.0.1", 1)
    for failed in (http, database, socket):
        assert "connection refused at h:1" == client_error_text(failed.value, "h:1")


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ('connection failed: FATAL:  database "secret" does not exist', "database does not exist"),
        ('connection failed: FATAL:  role "secret" does not exist', "role does not exist"),
        ('connection failed: FATAL:  role "secret" is not permitted to log in', "role is not permitted to log in"),
        ('FATAL:  permission denied for database "secret"', "permission denied for database"),
    ],
)
def test_a_wrong_name_in_a_database_url_differs_from_an_unreachable_server(text: str, phrase: str) -> None:
    """The message does not contain the name, which is part of a setting."""
    assert f"{phrase} at h:1" == client_error_text(ConnectionError(text), "h:1")
