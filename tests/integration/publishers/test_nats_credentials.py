"""NATS as its users secure it: user and password, token, TLS with an own authority; and what is said where it does not fit."""

import datetime
import ipaddress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from publishers.jetstream import JetStream
from publishers.sink import SinkError, Tail
from publishers.sink_settings import NatsSink
from tests.servers.nats import nats_server


async def opened(url: str, **settings: Any) -> Tail:
    """What the sink says when it is opened."""
    sink = JetStream("s", NatsSink(type="nats", url=url, answer_seconds_max=3, **settings), "")  # type: ignore[arg-type]
    try:
        return await sink.open()
    finally:
        await sink.close()


@pytest.mark.parametrize(
    ("server", "right", "wrong"),
    [
        ("user: ice, password: core", {"user": "ice", "password": "core"}, {"user": "ice", "password": "x"}),
        ("token: s3cret", {"token": "s3cret"}, {"token": "x"}),
    ],
)
async def test_a_password_or_a_token(tmp_path: Path, server: str, right: dict[str, str], wrong: dict[str, str]) -> None:
    """The right one opens; the wrong one is refused in words, without being shown."""
    with nats_server(tmp_path, configuration=f"authorization {{ {server} }}") as started:
        assert Tail(None, 0) == await opened(started.url, **right)
        with pytest.raises(SinkError, match=r"(?i)authorization") as refused:
            await opened(started.url, **wrong)
        assert "s3cret" not in str(refused.value)


async def test_tls_with_an_own_authority(tmp_path: Path) -> None:
    """With its certificate the connection stands; without it the server is not trusted."""
    certificate, key = self_signed(tmp_path)
    with nats_server(tmp_path, configuration=f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}') as started:
        url = started.url.replace("nats://", "tls://")
        assert Tail(None, 0) == await opened(url, tls_ca_file=certificate)
        with pytest.raises(SinkError, match=r"(?i)certificate"):
            await opened(url)


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The path is named."""
    with nats_server(tmp_path) as started, pytest.raises(SinkError, match=r"no\.creds"):
        await opened(started.url, credentials_file=tmp_path / "no.creds")


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nats")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "certificate.pem", folder / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    return certificate_file, key_file
