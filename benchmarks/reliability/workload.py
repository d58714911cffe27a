"""The operations of 32 clients: properties, appends with a requirement, transfers between accounts, new tables, copies, loads, bank
reads.
"""

import asyncio
import time
from contextlib import suppress

import aiohttp

from benchmarks.reliability.client import NAMESPACE, WAREHOUSE, Client, Json
from benchmarks.reliability.history import DELETE_OLD_FILES, BankRead, History, Mutation

CLIENTS = 32
PLAIN = ("p0", "p1", "p2")
HOT = ("hot",)
ACCOUNTS = ("a0", "a1", "a2", "a3")
BALANCE = 100
COPIES = 4
DELETES_OLD_FILES = {DELETE_OLD_FILES: "true", "write.metadata.previous-versions-max": "1"}
_SNAPSHOTS_KEPT = 4
_SETUP_SECONDS_MAX = 30


class Workload:
    """The clients of one run on one server."""

    def __init__(self, url: str, seed: str, history: History) -> None:
        self._url = url
        self._seed = seed
        self._history = history
        self._floors: dict[str, int] = {}
        self._position = self._set_up_position = 0
        self._clients: list[Client] = []

    async def run(self, session: aiohttp.ClientSession, finished: asyncio.Event) -> None:
        """Runs until `finished`, and waits for the changes in flight."""
        self._clients = [Client(n, self._url, session, self._history, self._floors, self._seed) for n in range(CLIENTS)]
        readers = [Client(CLIENTS + n, self._url, session, self._history, self._floors, self._seed) for n in range(2)]
        tasks = [asyncio.create_task(self._write(client, finished)) for client in self._clients]
        tasks += [asyncio.create_task(self._read_bank(reader, finished)) for reader in readers]
        waiting = asyncio.create_task(finished.wait())
        done, _ = await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {waiting}:
            task.result()
        for client in self._clients:
            client.stopping = True
        await asyncio.gather(*tasks)

    async def set_up(self, session: aiohttp.ClientSession) -> None:
        """Creates the namespace and the tables, and deposits money on the accounts."""
        async with asyncio.timeout(_SETUP_SECONDS_MAX):
            url = f"{self._url}/catalog/v1/{WAREHOUSE}/namespaces"
            created = False
            while not created:
                # Fault points are active already. A conflict means that an earlier attempt without a response has created it.
                with suppress(aiohttp.ClientError):
                    async with session.post(url, json={"namespace": [NAMESPACE]}) as response:
                        created = response.status in (200, 409)
            client = Client(-1, self._url, session, History(), self._floors, f"{self._seed}-setup")
            for table in (*PLAIN, *HOT, *ACCOUNTS):
                created = False
                while not created:
                    attempt = await client.create(table)
                    # A conflict means that an abandoned attempt has created it.
                    created = attempt.outcome == "ok" or attempt.attempts[-1].status == 409
            for account in ACCOUNTS:
                self._set_up_position = await _deposit(client, account)
        self._history.bank_total = BALANCE * len(ACCOUNTS)

    async def _write(self, client: Client, finished: asyncio.Event) -> None:
        while not finished.is_set():
            draw = client.dice.random()
            if draw < 0.45:
                mutation = await client.commit("property", client.dice.choice(PLAIN + HOT), [], [])
            elif draw < 0.65:
                await self._append(client)
                continue
            elif draw < 0.8:
                await self._transfer(client)
                continue
            elif draw < 0.83:
                mutation = await client.create(f"c{client.dice.getrandbits(64):016x}")
            elif draw < 0.85:
                mutation = await self._copies(client)
            else:
                await client.load(client.dice.choice(PLAIN + HOT + ACCOUNTS))
                continue
            self._position = max(self._position, mutation.position or 0)
            if mutation.outcome != "ok":
                await asyncio.sleep(0.05)

    async def _append(self, client: Client) -> None:
        table = client.dice.choice(HOT)
        loaded = await client.load(table)
        if loaded is None:
            await asyncio.sleep(0.1)
            return
        await client.commit("append", table, *_snapshot(client, loaded, 0))

    async def _copies(self, client: Client) -> Mutation:
        """Creates a table that deletes its old metadata files, and sends several copies of one change at once."""
        table = f"d{client.dice.getrandbits(64):016x}"
        mutation = await client.create(table, **DELETES_OLD_FILES)
        if mutation.outcome == "ok":
            mutation = await client.commit("copies", table, [], [], copies=COPIES)
        return mutation

    async def _transfer(self, client: Client) -> None:
        tables = client.dice.sample(ACCOUNTS, 2)
        loaded = [await client.load(table) for table in tables]
        amount = client.dice.randint(1, 9)
        changes: dict[str, tuple[list[Json], list[Json]]] = {}
        for table, account, change in zip(tables, loaded, (-amount, amount), strict=True):
            if account is None:
                await asyncio.sleep(0.1)
                return
            changes[table] = _snapshot(client, account, balance(account) + change)
        mutation = await client.transact("transfer", changes)
        self._position = max(self._position, mutation.position or 0)

    async def _read_bank(self, client: Client, finished: asyncio.Event) -> None:
        """All accounts as of one position, which may be inside a transfer."""
        while not finished.is_set():
            position = self._position - client.dice.randint(0, 3)
            if position >= self._set_up_position:
                loaded = [await client.load(account, at=position) for account in ACCOUNTS]
                found = [account for account in loaded if account is not None]
                if len(found) == len(ACCOUNTS):
                    self._history.bank_reads.append(BankRead(position, tuple(balance(account) for account in found)))
            await asyncio.sleep(0.05)


async def _deposit(client: Client, account: str) -> int:
    """The position of the deposit, once it can be read: a control may respond before it commits."""
    position = 0
    while True:
        loaded = await client.load(account)
        if loaded is not None and balance(loaded):
            return position
        if loaded is not None:
            deposit = await client.commit("deposit", account, *_snapshot(client, loaded, BALANCE))
            position = deposit.position or position
        await asyncio.sleep(0.05)


def balance(loaded: Json) -> int:
    """The balance in an account's current snapshot; 0 before the first."""
    metadata = loaded["metadata"]
    return sum(int(s["summary"]["balance"]) for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])


def _snapshot(client: Client, loaded: Json, new_balance: int) -> tuple[list[Json], list[Json]]:
    """The updates that set main to a new snapshot and expire old ones, and the requirement that main has not changed."""
    metadata = loaded["metadata"]
    seen: int | None = metadata.get("current-snapshot-id")
    seen = None if seen == -1 else seen
    snapshot_id = client.dice.getrandbits(62)
    snapshot: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": max(time.time_ns() // 1_000_000, metadata["last-updated-ms"]),
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", "balance": str(new_balance)},
        "schema-id": metadata["current-schema-id"],
    }
    if seen is not None:
        snapshot["parent-snapshot-id"] = seen
    old = [s["snapshot-id"] for s in metadata.get("snapshots", [])][: -_SNAPSHOTS_KEPT + 1]
    updates: list[Json] = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
    if old:
        updates.append({"action": "remove-snapshots", "snapshot-ids": old})
    return updates, [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": seen}]
