"""Requests of a careful client: one Idempotency-Key per change, repeated after a lost response, and sometimes abandoned."""

import asyncio
import random
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson

from benchmarks.reliability.history import Attempt, History, Load, Mutation

Json = dict[str, Any]

WAREHOUSE = "demo"
NAMESPACE = "r"
ATTEMPTS_MAX = 10
_REQUEST_SECONDS_MAX = 25
_ABANDONED_SHARE = 0.03
_GIVEN_UP_SHARE = 0.3
_KEYED_SHARE = 0.75
_SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


class Client:
    """One client. All clients of a run share the session, the history and their knowledge of each table."""

    def __init__(self, number: int, url: str, session: aiohttp.ClientSession, history: History, floors: dict[str, int], seed: str) -> None:
        self.number = number
        self.dice = random.Random(f"{seed}-{number}")
        self._root = f"{url}/catalog/v1/{WAREHOUSE}"
        self._session = session
        self._history = history
        self._floors = floors
        self.stopping = False

    async def load(self, table: str, at: int | None = None) -> Json | None:
        """The LoadTableResult; None without a response. Loads of the current state are recorded."""
        load = Load(self.number, table, self._floors.get(table, -1), Attempt(time.monotonic()))
        root = self._root if at is None else f"{self._root}{quote(f'@{at}')}"
        body = await self._send("GET", f"{root}/namespaces/{NAMESPACE}/tables/{table}", None, load.attempt, {})
        if at is None:
            self._history.loads.append(load)
        if load.attempt.status != 200 or body is None:
            return None
        result: Json = orjson.loads(body)
        load.number = file_number(result["metadata-location"])
        load.file_missing = at is None and not _stands(result["metadata-location"])
        return result

    async def create(self, table: str, **properties: str) -> Mutation:
        def body(op: str) -> Json:
            return {"name": table, "schema": _SCHEMA, "properties": {**properties, "op": op}}

        return await self._mutate("create", (table,), f"/namespaces/{NAMESPACE}/tables", body)

    async def commit(self, kind: str, table: str, updates: list[Json], requirements: list[Json], *, copies: int = 1) -> Mutation:
        """Commits to a table. `copies` -- the number of requests with the same key that are sent at once."""

        def body(op: str) -> Json:
            return {"requirements": requirements, "updates": [*updates, _named(op)]}

        return await self._mutate(kind, (table,), f"/namespaces/{NAMESPACE}/tables/{table}", body, copies)

    async def transact(self, kind: str, changes: dict[str, tuple[list[Json], list[Json]]]) -> Mutation:
        """Updates and requirements by table, committed together."""

        def body(op: str) -> Json:
            return {
                "table-changes": [
                    {
                        "identifier": {"namespace": [NAMESPACE], "name": table},
                        "requirements": requirements,
                        "updates": [*updates, _named(op)],
                    }
                    for table, (updates, requirements) in changes.items()
                ]
            }

        return await self._mutate(kind, tuple(changes), "/transactions/commit", body)

    async def _mutate(self, kind: str, tables: tuple[str, ...], path: str, body: Any, copies: int = 1) -> Mutation:
        op = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
        mutation = Mutation(op, kind, self.number, tables, self.dice.random() < _KEYED_SHARE or copies > 1)
        self._history.mutations.append(mutation)
        data = orjson.dumps(body(op))
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": op} if mutation.keyed else {})
        while True:
            attempts = [Attempt(time.monotonic()) for _ in range(copies)]
            mutation.attempts += attempts
            sending = [self._send("POST", self._root + path, data, attempt, headers, mutation) for attempt in attempts]
            for attempt, response in zip(attempts, await asyncio.gather(*sending), strict=True):
                if attempt.status is not None and attempt.status < 300:
                    mutation.outcome = "ok"
                    self._learn(mutation, response)
            if mutation.outcome == "ok":
                return mutation
            if any(attempt.refused for attempt in attempts):
                mutation.outcome = "fail"
                return mutation
            if not await self._again(mutation, attempts[-1]):
                # Nothing was done only if every request was answered so.
                mutation.outcome = "fail" if all(each.nothing_done for each in mutation.attempts) else "info"
                return mutation

    async def _again(self, mutation: Mutation, attempt: Attempt) -> bool:
        """Whether the client repeats the request. Without a key, only if nothing was done."""
        if len(mutation.attempts) >= ATTEMPTS_MAX or self.stopping or not (mutation.keyed or attempt.nothing_done):
            return False
        if attempt.nothing_done and self.dice.random() < _GIVEN_UP_SHARE:
            return False
        await asyncio.sleep(self.dice.uniform(0.05, 0.5))
        return True

    def _learn(self, mutation: Mutation, response: bytes | None) -> None:
        if not response or len(mutation.tables) != 1:
            return
        table, number = mutation.tables[0], file_number(orjson.loads(response)["metadata-location"])
        mutation.numbers[table] = number
        self._floors[table] = max(self._floors.get(table, -1), number)

    async def _send(
        self, method: str, url: str, data: bytes | None, attempt: Attempt, headers: dict[str, str], mutation: Mutation | None = None
    ) -> bytes | None:
        """Sends one request and records the outcome in `attempt`."""
        abandoned = mutation is not None and self.dice.random() < _ABANDONED_SHARE
        patience = self.dice.uniform(0.001, 0.03) if abandoned else _REQUEST_SECONDS_MAX
        # Sometimes opens a new connection, which any worker may accept.
        if self.dice.random() < 0.2:
            headers = headers | {"Connection": "close"}
        try:
            async with asyncio.timeout(patience), self._session.request(method, url, data=data, headers=headers) as response:
                body = await response.read()
                attempt.status = response.status
                attempt.retry_after = "Retry-After" in response.headers
                if mutation is not None and response.status < 300:
                    mutation.position = int(response.headers["Icecore-Position"])
                if response.status >= 400:
                    attempt.error_type = orjson.loads(body)["error"]["type"]
                return body
        except TimeoutError:
            attempt.error_type = "abandoned" if abandoned else "TimeoutError"
        except (aiohttp.ClientError, OSError) as error:
            attempt.error_type = type(error).__name__
        finally:
            attempt.ended = time.monotonic()
        return None


def file_number(metadata_location: str) -> int:
    """The version number at the beginning of a metadata file's name."""
    return int(metadata_location.rpartition("/")[2].partition("-")[0])


def _stands(location: str) -> bool:
    return Path(location.removeprefix("file://")).exists()


def _named(op: str) -> Json:
    return {"action": "set-properties", "updates": {"op": op}}
