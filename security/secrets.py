"""The secret store: credentials encrypted with AES-256-GCM in their own table. The log contains their ids only."""

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import uuid_utils.compat as uuids
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from psycopg import AsyncConnection, Connection

from ..database.named_sql import named_sql
from ..domain.errors import ServiceUnavailable

KEY_BYTES = 32
NONCE_BYTES = 12
KEY_FILE_BYTES_MAX = 1_024
REWRAP_SECRETS_MAX = 100
"""Secrets that a rewrap reads at a time."""

Watch = Callable[[int, int], None]
"""Called with the number done and the total."""

_SQL = named_sql("icecore.security", "secrets.sql")
_TABLE = b"icecore.secrets"


class SecretUnreadable(ServiceUnavailable, status=503, type="ServiceUnavailableException"):
    """A secret does not exist, was encrypted with an unknown key, or was altered."""


class SecretKeyError(ValueError):
    """A text or file does not contain a valid key. The program must not start with it."""


class SecretKey:
    """A 256-bit key. `id` -- a short fingerprint of the key, stored with each secret. It reveals nothing about the key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise SecretKeyError(f"the secret key must be {KEY_BYTES} bytes, not {len(key)}")
        self._key, self._cipher = key, AESGCM(key)
        self.id = hashlib.sha256(b"icecore secret key id\0" + key).hexdigest()[:16]
        self._hash_key = hashlib.sha256(b"icecore secret key hash\0" + key).digest()

    @classmethod
    def from_base64(cls, text: str) -> "SecretKey":
        """Reads the key of a setting or key file: 32 bytes in base64, standard or URL-safe."""
        try:
            key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except ValueError:
            raise SecretKeyError("the secret key is not base64") from None
        return cls(key)

    @classmethod
    def from_file(cls, path: Path) -> "SecretKey":
        """Reads the key from the file at `path`."""
        with path.open("rb") as file:
            data = file.read(KEY_FILE_BYTES_MAX + 1)
        if len(data) > KEY_FILE_BYTES_MAX or not data.isascii():
            raise SecretKeyError("the file does not contain a key in base64")
        return cls.from_base64(data.decode("ascii"))

    def __repr__(self) -> str:
        return f"SecretKey(id={self.id!r})"

    def __reduce__(self) -> Any:
        raise TypeError("a secret key is not serialized")

    def to_base64(self) -> str:
        """The key in clear text. Only for a pipe to a child process."""
        return base64.b64encode(self._key).decode()

    def keyed_hash(self, data: bytes) -> bytes:
        """HMAC-SHA256 of `data`. Without the key, guessed values cannot be tested against it."""
        return hmac.digest(self._hash_key, data, "sha256")

    def encrypt(self, data: bytes, bound_to: bytes) -> tuple[bytes, bytes]:
        """Returns the nonce and ciphertext of `data`. It can only be decrypted with the same `bound_to`."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce, self._cipher.encrypt(nonce, data, bound_to)

    def decrypt(self, nonce: bytes, ciphertext: bytes, bound_to: bytes) -> bytes:
        """Returns the data that was encrypted. Raises InvalidTag if the ciphertext, the key or `bound_to` differs."""
        return self._cipher.decrypt(nonce, ciphertext, bound_to)


class RewrapReport(NamedTuple):
    """rewrapped -- the number of secrets that were encrypted again. unreadable -- ids of those that no known key decrypts."""

    rewrapped: int
    unreadable: list[UUID]


class _Row(NamedTuple):
    version: int
    key_id: str
    nonce: bytes | None
    ciphertext: bytes | None


class SecretStore:
    """The secrets in `icecore.secrets`, by project and id.

    Encrypts with `key`; decrypts with it and `older_keys`.
    """

    def __init__(self, key: SecretKey, older_keys: Sequence[SecretKey] = ()) -> None:
        self._key = key
        self._keys = {known.id: known for known in (*older_keys, key)}

    @classmethod
    def from_json(cls, keys: Sequence[str]) -> "SecretStore":
        """Reads the result of `to_json`."""
        key, *older_keys = map(SecretKey.from_base64, keys)
        return cls(key, older_keys)

    def to_json(self) -> list[str]:
        """The keys in clear text, first the one that encrypts. Only for a pipe to a child process."""
        older_keys = [known for known in self._keys.values() if known is not self._key]
        return [known.to_base64() for known in (self._key, *older_keys)]

    def keyed_hash(self, data: bytes) -> bytes:
        """A 32-byte hash that identifies equal `data`, which may be secret. It changes with the encryption key."""
        return self._key.keyed_hash(data)

    async def put(self, connection: AsyncConnection[Any], project_id: UUID, data: bytes) -> UUID:
        """Encrypts and inserts `data` in the caller's transaction. Returns the id, which events may contain."""
        secret_id = UUID(bytes=uuids.uuid7().bytes)
        nonce, ciphertext = self._key.encrypt(data, _bound_to(secret_id, 1, project_id))
        row = {"id": secret_id, "project_id": project_id, "version": 1, "key_id": self._key.id}
        await connection.execute(_SQL["insert_secret"], {**row, "nonce": nonce, "ciphertext": ciphertext})
        return secret_id

    async def get(self, connection: AsyncConnection[Any], project_id: UUID, secret_id: UUID) -> bytes:
        """The decrypted secret. Raises SecretUnreadable if the project does not have it, or it was destroyed, altered, or encrypted with an
        unknown key.
        """
        cursor = await connection.execute(_SQL["select_secret"], {"id": secret_id, "project_id": project_id})
        found = await cursor.fetchone()
        if found is None:
            raise SecretUnreadable(f"The stored credential {secret_id} does not exist")
        return self._open(secret_id, project_id, _Row(*found))

    async def count_unreadable(self, connection: AsyncConnection[Any]) -> tuple[int, int]:
        """The number of secrets that were encrypted with an unknown key, and the number of all secrets."""
        rows = await (await connection.execute(_SQL["count_by_key"])).fetchall()
        return sum(count for key_id, count in rows if key_id not in self._keys), sum(count for _, count in rows)

    async def rewrap(self, connection: AsyncConnection[Any], watch: Watch) -> RewrapReport:
        """Encrypts every secret that another key encrypted with the current one. The connection is in autocommit mode: each secret is
        written at once, so a rewrap that is interrupted continues where it ended.

        watch -- called with the number of secrets that were looked at, and of all secrets of other keys.
        """
        rows = await (await connection.execute(_SQL["count_by_key"])).fetchall()
        total = sum(count for key_id, count in rows if key_id != self._key.id)
        rewrapped, unreadable, done, after = 0, [], 0, UUID(int=0)
        while True:
            page = {"key_id": self._key.id, "after": after, "secrets_max": REWRAP_SECRETS_MAX}
            found = await (await connection.execute(_SQL["select_of_other_keys"], page)).fetchall()
            for secret_id, project_id, *columns in found:
                row = _Row(*columns)
                try:
                    data = self._open(secret_id, project_id, row)
                except SecretUnreadable:
                    unreadable.append(secret_id)
                else:
                    nonce, ciphertext = self._key.encrypt(data, _bound_to(secret_id, row.version + 1, project_id))
                    new = {"id": secret_id, "version": row.version, "key_id": self._key.id, "nonce": nonce, "ciphertext": ciphertext}
                    rewrapped += (await connection.execute(_SQL["rewrap_secret"], new)).rowcount
                done, after = done + 1, secret_id
                watch(done, max(done, total))
            if len(found) < REWRAP_SECRETS_MAX:
                return RewrapReport(rewrapped, unreadable)

    async def destroy(self, connection: AsyncConnection[Any], project_id: UUID, secret_id: UUID) -> bool:
        """Deletes the secret's content permanently; False if there was none."""
        cursor = await connection.execute(_SQL["destroy_secret"], {"id": secret_id, "project_id": project_id})
        return cursor.rowcount == 1

    async def destroy_unnamed(
        self, connection: AsyncConnection[Any], project_id: UUID, named: Collection[UUID], age_seconds_min: float
    ) -> int:
        """Deletes the content of the project's secrets that are older and not among `named`. Returns their number."""
        row = {"project_id": project_id, "named": list(named), "age_seconds_min": age_seconds_min}
        return (await connection.execute(_SQL["destroy_unnamed"], row)).rowcount

    def _open(self, secret_id: UUID, project_id: UUID, row: _Row) -> bytes:
        if row.nonce is None or row.ciphertext is None:
            raise SecretUnreadable(f"The stored credential {secret_id} was destroyed")
        key = self._keys.get(row.key_id)
        if key is None:
            raise SecretUnreadable(f"The stored credential {secret_id} was encrypted with key {row.key_id}, which the server does not have")
        try:
            return key.decrypt(row.nonce, row.ciphertext, _bound_to(secret_id, row.version, project_id))
        except InvalidTag:
            raise SecretUnreadable(f"The stored credential {secret_id} cannot be decrypted: it was altered after it was stored") from None


def count_secrets(connection: Connection[Any]) -> int:
    """The number of secrets that are not destroyed. 0 if the database does not have their table yet."""
    if connection.execute(_SQL["has_secrets"]).fetchone() != (True,):
        return 0
    return sum(count for _, count in connection.execute(_SQL["count_by_key"]).fetchall())


def _bound_to(secret_id: UUID, version: int, project_id: UUID) -> bytes:
    """The associated data of a ciphertext. It cannot be decrypted in another row, version or project."""
    return b"|".join((_TABLE, str(secret_id).encode(), str(version).encode(), str(project_id).encode()))
