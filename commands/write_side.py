"""What every command takes: the read models to decide on, the committer, the stores, and the loop that decides again."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import orjson
import structlog

from commands import idempotency
from commands.committer import Committer
from commands.context import Answer, CommandContext
from commands.idempotency import Remembered
from commands.metrics_reports import MetricsReports
from commands.submission import AppendResult, IdempotencyRecord, Submission
from domain.errors import AlreadyExists, CatalogError, CommitFailed, InternalError, ServiceUnavailable, UnsupportedOperation
from projections.connections import Connection
from projections.warehouses import log_head
from queries.read_side import ReadSide
from queries.warehouse import Warehouse
from security.secrets import SecretStore
from storage.locations import StorageLocation
from storage.object_store import ObjectStore

_log = structlog.get_logger("icecore.commands")

# How long a command that loses to others decides again before it gives up.
DECIDE_SECONDS_MAX = 10
DECISIONS_MAX = 100


@dataclass(slots=True)
class Decision:
    """What a command came to on the state it saw.

    submission -- None where nothing changes: the answer is given at once, or recorded if it carries a key.
    record -- what the key is remembered by.
    answer -- the answer once the position is known.
    files -- metadata files written for it: taken away again if it surely did not come to effect.
    """

    submission: Submission
    record: IdempotencyRecord
    answer: Callable[[int], Answer]
    files: list[StorageLocation] = field(default_factory=list)


Decide = Callable[[], Awaitable[Decision]]


class WriteSide:
    """The parts a command is written with; `now_ms` is the clock."""

    def __init__(
        self,
        reads: ReadSide,
        committer: Committer,
        secrets: SecretStore,
        metrics_reports: MetricsReports,
        *,
        decide_seconds_max: float = DECIDE_SECONDS_MAX,
    ) -> None:
        self.reads = reads
        self.secrets = secrets
        self.metrics_reports = metrics_reports
        self._committer = committer
        self._decide_seconds_max = decide_seconds_max

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        return self.reads.connection()

    async def store(self, warehouse: Warehouse) -> ObjectStore:
        return await self.reads.store(warehouse)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def submit(self, submission: Submission) -> AppendResult:
        return await self._committer.submit(submission)

    async def execute(self, context: CommandContext, warehouse: Warehouse, decide: Decide) -> Answer:
        """Decides, appends, and decides again on newer state while others come first.

        A refusal that carries a key is recorded before it is answered, so that the key always gets the same answer.
        """
        if warehouse.as_of is not None:
            raise UnsupportedOperation(f"Warehouse {warehouse.name} is read as of position {warehouse.as_of}: a past cannot be changed")
        if context.idempotency_key is not None:
            async with self.connection() as connection:
                remembered = await idempotency.find(connection, context)
                if remembered is not None:
                    return await self._again(connection, warehouse, remembered)
        deadline = time.monotonic() + self._decide_seconds_max
        for _ in range(DECISIONS_MAX):
            try:
                decision = await decide()
            except CatalogError as refusal:
                return await self._refused(context, warehouse, refusal)
            answer = await self._settled(context, warehouse, decision)
            if answer is not None:
                return answer
            if time.monotonic() > deadline:
                break
        raise CommitFailed("Others kept changing the same thing: try again")

    async def _settled(self, context: CommandContext, warehouse: Warehouse, decision: Decision) -> Answer | None:
        """The answer, or None where another command came first."""
        submission = decision.submission
        submission.record = decision.record
        if not submission.has_events and context.idempotency_key is None:
            return decision.answer(await self._log_head())
        try:
            result = await self.submit(submission)
        except ServiceUnavailable:
            await self.discard(warehouse, decision.files)
            raise
        match result.outcome:
            case "appended" | "recorded":
                return decision.answer(result.position)
            case "replayed" | "key_reused":
                await self.discard(warehouse, decision.files)
                return await self._replayed(warehouse, result)
        await self.discard(warehouse, decision.files)
        match result.outcome:
            case "location":
                # The claim key is the store's identity, a bar, and the place.
                place = (result.detail or "").partition("|")[2]
                refusal = AlreadyExists(f"Location is already taken, contains or lies inside another's: {place}")
                return await self._refused(context, warehouse, refusal)
            case "error":
                raise InternalError("The log refused the command")
        return None

    async def _refused(self, context: CommandContext, warehouse: Warehouse, refusal: CatalogError) -> Answer:
        """Raises the refusal, once it is remembered if it carries a key."""
        if context.idempotency_key is None or not refusal.deterministic:
            raise refusal
        body = orjson.dumps({"message": refusal.message, "type": refusal.type, "code": refusal.status})
        result = await self.submit(Submission(context, record=IdempotencyRecord(refusal.status, body=body)))
        if result.outcome in ("replayed", "key_reused"):
            return await self._replayed(warehouse, result)
        raise refusal

    async def _replayed(self, warehouse: Warehouse, result: AppendResult) -> Answer:
        if result.outcome == "key_reused":
            raise idempotency.key_reused()
        assert result.record is not None and result.detail is not None
        async with self.connection() as connection:
            return await self._again(connection, warehouse, Remembered(result.record, result.position, result.detail))

    async def _again(self, connection: Connection, warehouse: Warehouse, remembered: Remembered) -> Answer:
        record = remembered.record
        if record.status >= 400:
            assert record.body is not None
            refusal = orjson.loads(record.body)
            raise CatalogError.remembered(refusal["code"], refusal["type"], refusal["message"])
        return await idempotency.answer_again(connection, warehouse, remembered)

    async def _log_head(self) -> int:
        async with self.connection() as connection:
            return await log_head(connection)

    async def discard(self, warehouse: Warehouse, files: list[StorageLocation]) -> None:
        """Takes files away that no event names; one that stays is an orphan, and harms nobody."""
        if not files:
            return
        try:
            await (await self.store(warehouse)).delete(files)
        except CatalogError as error:
            _log.warning("metadata_file_left", files=[str(file) for file in files], error=error.message)
