"""Certificates for servers and clients on loopback, signed by a test's own authority."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


@dataclass(frozen=True)
class Certificate:
    """PEM files of a certificate and its key. `both` contains key and certificate, as Kafka's PEM key stores require."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """A certificate authority. `file` is its own certificate."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(self._signed(name, self._key, is_authority=True).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> Certificate:
        """Issues a certificate for a server on 127.0.0.1 or that host name, or for a client of that name."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(name, key, is_authority=False).public_bytes(serialization.Encoding.PEM)
        encoded = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        issued = Certificate(*(self._directory / f"{self._name}-{name}{suffix}" for suffix in (".pem", ".key", "-both.pem")))
        issued.certificate.write_bytes(certificate)
        issued.key.write_bytes(encoded)
        issued.both.write_bytes(encoded + certificate)
        return issued

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([_LOOPBACK, x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
