"""The secret store on a real Postgres: rows that were altered, moved or lost their key cannot be decrypted."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import psycopg.sql
import pytest

from icecore.domain.errors import ServiceUnavailable
from icecore.projections.watch import not_watched
from icecore.security import secrets
from icecore.security.secrets import KEY_BYTES, SecretKey, SecretStore, SecretUnreadable

Connection = psycopg.AsyncConnection[Any]

KEY, OTHER_KEY = SecretKey(bytes(range(KEY_BYTES))), SecretKey(bytes(KEY_BYTES))
PROJECT, OTHER_PROJECT = UUID(int=0), UUID(int=1)
SECRET = b'{"aws-secret-access-key": "canary-5f1d"}'


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    """A connection to a new migrated database."""
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def store() -> SecretStore:
    """The store with the current key."""
    return SecretStore(KEY)


async def _row(connection: Connection, secret_id: UUID) -> dict[str, Any]:
    cursor = await connection.execute("select * from icecore.secrets where id = %s", [secret_id])
    row = await cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    return {column.name: value for column, value in zip(cursor.description, row, strict=True)}


async def test_a_secret_comes_back_as_it_went(connection: Connection, store: SecretStore) -> None:
    """Any bytes, including none."""
    for data in (SECRET, b"", bytes(range(256)) * 200):
        secret_id = await store.put(connection, PROJECT, data)
        assert data == await store.get(connection, PROJECT, secret_id)


async def test_the_table_holds_nothing_readable(connection: Connection, store: SecretStore) -> None:
    """No column contains the secret, equal secrets have different ciphertexts, and the row has the key's id."""
    first, second = [await _row(connection, await store.put(connection, PROJECT, SECRET)) for _ in range(2)]
    assert b"canary" not in repr(first).encode()
    assert len(SECRET) + 16 == len(first["ciphertext"])
    assert first["nonce"] != second["nonce"]
    assert first["ciphertext"] != second["ciphertext"]
    assert KEY.id == first["key_id"]
    assert 7 == first["id"].version


async def test_another_project_does_not_find_it(connection: Connection, store: SecretStore) -> None:
    """Neither for reading nor for destroying. The error is that for an unknown id."""
    secret_id = await store.put(connection, PROJECT, SECRET)
    unknown = uuid4()
    with pytest.raises(SecretUnreadable) as foreign:
        await store.get(connection, OTHER_PROJECT, secret_id)
    with pytest.raises(SecretUnreadable) as missing:
        await store.get(connection, OTHER_PROJECT, unknown)
    assert missing.value.message.replace(str(unknown), str(secret_id)) == foreign.value.message
    assert not await store.destroy(connection, OTHER_PROJECT, secret_id)
    assert SECRET == await store.get(connection, PROJECT, secret_id)


@pytest.mark.parametrize("column", ["nonce", "ciphertext"])
async def test_one_flipped_bit_is_noticed(connection: Connection, store: SecretStore, column: str) -> None:
    """In the first, a middle and the last byte."""
    secret_id = await store.put(connection, PROJECT, SECRET)
    good = (await _row(connection, secret_id))[column]
    for place in (0, len(good) // 2, len(good) - 1):
        bad = bytearray(good)
        bad[place] ^= 1
        await _set(connection, secret_id, column, bytes(bad))
        with pytest.raises(SecretUnreadable, match="it was altered after it was stored"):
            await store.get(connection, PROJECT, secret_id)
    await _set(connection, secret_id, column, good)
    assert SECRET == await store.get(connection, PROJECT, secret_id)


async def _set(connection: Connection, secret_id: UUID, column: str, value: object) -> None:
    update = psycopg.sql.SQL("update icecore.secrets set {} = %s where id = %s").format(psycopg.sql.Identifier(column))
    await connection.execute(update, [value, secret_id])


async def test_a_row_copied_over_another_is_noticed(connection: Connection, store: SecretStore) -> None:
    """Somebody who can write the table cannot give one warehouse another's credential."""
    mine = await store.put(connection, PROJECT, SECRET)
    victims = await store.put(connection, PROJECT, b"victim")
    row = await _row(connection, victims)
    await connection.execute(
        "update icecore.secrets set nonce = %s, ciphertext = %s where id = %s", [row["nonce"], row["ciphertext"], mine]
    )
    with pytest.raises(SecretUnreadable, match="it was altered after it was stored"):
        await store.get(connection, PROJECT, mine)


@pytest.mark.parametrize(("column", "value"), [("project_id", OTHER_PROJECT), ("version", 2)])
async def test_a_row_with_other_marks_is_noticed(connection: Connection, store: SecretStore, column: str, value: object) -> None:
    """A row of another project or version cannot be decrypted."""
    secret_id = await store.put(connection, PROJECT, SECRET)
    await _set(connection, secret_id, column, value)
    with pytest.raises(SecretUnreadable, match="it was altered after it was stored"):
        await store.get(connection, OTHER_PROJECT if column == "project_id" else PROJECT, secret_id)


async def test_the_wrong_key_is_said_to_be_the_wrong_key(connection: Connection, store: SecretStore) -> None:
    """The log names the missing key. The client gets 503, because nothing was done."""
    secret_id = await store.put(connection, PROJECT, SECRET)
    with pytest.raises(SecretUnreadable, match=f"encrypted with key {KEY.id}") as refusal:
        await SecretStore(OTHER_KEY).get(connection, PROJECT, secret_id)
    assert isinstance(refusal.value, ServiceUnavailable)
    assert 503 == refusal.value.status


async def test_a_key_that_only_claims_to_be_the_one_does_not_open(connection: Connection, store: SecretStore) -> None:
    """Negative control: the id is only a hint; the cipher detects a wrong key."""
    secret_id = await store.put(connection, PROJECT, SECRET)
    await _set(connection, secret_id, "key_id", OTHER_KEY.id)
    with pytest.raises(SecretUnreadable, match="it was altered after it was stored"):
        await SecretStore(OTHER_KEY).get(connection, PROJECT, secret_id)


async def test_destroyed_is_gone(connection: Connection, store: SecretStore) -> None:
    """The row stays without its content. Destroying it again does nothing."""
    secret_id = await store.put(connection, PROJECT, SECRET)
    assert await store.destroy(connection, PROJECT, secret_id)
    assert not await store.destroy(connection, PROJECT, secret_id)
    row = await _row(connection, secret_id)
    assert (None, None) == (row["nonce"], row["ciphertext"])
    assert row["destroyed_at"] is not None
    with pytest.raises(SecretUnreadable, match="destroyed"):
        await store.get(connection, PROJECT, secret_id)


async def test_put_lives_and_dies_with_the_callers_transaction(connection: Connection, store: SecretStore) -> None:
    """A warehouse that is not created leaves no secret."""
    async with connection.transaction(force_rollback=True):
        secret_id = await store.put(connection, PROJECT, SECRET)
        assert SECRET == await store.get(connection, PROJECT, secret_id)
    with pytest.raises(SecretUnreadable, match="does not exist"):
        await store.get(connection, PROJECT, secret_id)


async def test_rows_of_an_older_key_are_read(connection: Connection, store: SecretStore) -> None:
    """With both keys everything can be decrypted. New secrets use the new key."""
    old = await store.put(connection, PROJECT, SECRET)
    both = SecretStore(OTHER_KEY, [KEY])
    new = await both.put(connection, PROJECT, b"new")
    assert SECRET == await both.get(connection, PROJECT, old)
    assert b"new" == await SecretStore(OTHER_KEY).get(connection, PROJECT, new)
    with pytest.raises(SecretUnreadable, match="encrypted with key"):
        await store.get(connection, PROJECT, new)


async def test_a_rewrap_encrypts_all_secrets_with_the_current_key(
    connection: Connection, store: SecretStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pages. Destroyed ones stay destroyed, and a second rewrap finds nothing to do."""
    monkeypatch.setattr(secrets, "REWRAP_SECRETS_MAX", 2)
    kept = [await store.put(connection, PROJECT, SECRET) for _ in range(5)]
    gone = await store.put(connection, PROJECT, SECRET)
    await store.destroy(connection, PROJECT, gone)
    both, watched = SecretStore(OTHER_KEY, [KEY]), list[tuple[int, int]]()
    kept.append(await both.put(connection, OTHER_PROJECT, b"new"))
    before = await _row(connection, kept[0])
    assert (5, []) == await both.rewrap(connection, lambda *done: watched.append(done))
    assert [(number, 5) for number in range(1, 6)] == watched
    new = SecretStore(OTHER_KEY)
    assert [SECRET] * 5 == [await new.get(connection, PROJECT, each) for each in kept[:5]]
    assert b"new" == await new.get(connection, OTHER_PROJECT, kept[5])
    with pytest.raises(SecretUnreadable, match="destroyed"):
        await new.get(connection, PROJECT, gone)
    after = await _row(connection, kept[0])
    assert (before["version"] + 1, before["created_at"]) == (after["version"], after["created_at"])
    assert before["nonce"] != after["nonce"]
    assert (0, []) == await both.rewrap(connection, not_watched)


async def test_a_rewrap_that_was_interrupted_goes_on(connection: Connection, store: SecretStore) -> None:
    """What was done is kept. Meanwhile every secret can be read with both keys."""
    kept = [await store.put(connection, PROJECT, SECRET) for _ in range(5)]
    both = SecretStore(OTHER_KEY, [KEY])

    def interrupted(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await both.rewrap(connection, interrupted)
    assert [OTHER_KEY.id] * 3 + [KEY.id] * 2 == [(await _row(connection, each))["key_id"] for each in kept]
    assert [SECRET] * 5 == [await both.get(connection, PROJECT, each) for each in kept]
    assert (2, []) == await both.rewrap(connection, not_watched)


async def test_a_rewrap_leaves_what_it_cannot_read(connection: Connection, store: SecretStore) -> None:
    """A secret of an unknown key, and one that was altered, are named and unchanged."""
    lost, altered, kept = [await each.put(connection, PROJECT, SECRET) for each in (SecretStore(SecretKey(b"k" * 32)), store, store)]
    await connection.execute("update icecore.secrets set ciphertext = ciphertext || 'x' where id = %s", [altered])
    before = [await _row(connection, each) for each in (lost, altered)]
    both = SecretStore(OTHER_KEY, [KEY])
    assert (1, [lost, altered]) == await both.rewrap(connection, not_watched)
    assert before == [await _row(connection, each) for each in (lost, altered)]
    assert SECRET == await both.get(connection, PROJECT, kept)


async def test_a_secret_that_is_destroyed_during_a_rewrap_stays_destroyed(
    database: str, connection: Connection, store: SecretStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its read and its write."""
    secret_id = await store.put(connection, PROJECT, SECRET)
    both = SecretStore(OTHER_KEY, [KEY])
    opened = both._open

    def destroyed_meanwhile(*row: Any) -> bytes:
        with psycopg.connect(database, autocommit=True) as other:
            other.execute("update icecore.secrets set nonce = null, ciphertext = null, destroyed_at = now()")
        return opened(*row)

    monkeypatch.setattr(both, "_open", destroyed_meanwhile)
    assert (0, []) == await both.rewrap(connection, not_watched)
    assert (await _row(connection, secret_id))["ciphertext"] is None
