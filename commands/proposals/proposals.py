"""Opens a held change as a proposal, and closes it: approved with the events of the change, rejected, expired or stale."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...approval.hooks import PendingApproval
from ...approval.proposed_change import object_heads
from ...database.connections import Connection
from ...domain.commands import properties_set
from ...domain.documents import Json
from ...domain.errors import (
    ApprovalRequired,
    BadRequest,
    CatalogError,
    ChangeHeld,
    ChangeRefused,
    CommitFailed,
    InternalError,
    ProposalClosed,
)
from ...domain.proposal import HeldChange, ProposalState, decide_approve, decide_open, decide_stale, stale, time_text
from ...domain.stored_commands import encode
from ...projections import proposals
from ...security.property_rules import refuse_credential_properties
from ..execution.clock import now_ms
from ..execution.committer import Committer
from ..execution.deciding import decided, is_large_request
from ..execution.submission import AppendResult, IdempotencyRecord, Submission

HELD_BYTES_MAX = 1024 * 1024
"""Of the command of a change that waits, as JSON: it is kept in the log, and read whole by whoever decides."""

# Each time another request for the same change came first.
_ATTEMPTS_MAX = 100

Connections = Callable[[], AbstractAsyncContextManager[Connection]]


def proposal_json(state: ProposalState, *, with_command: bool = True) -> Json:
    """A proposal as the management API tells it."""
    answer: Json = {
        "id": str(state.id),
        "warehouse-id": str(state.warehouse_id),
        "status": state.status,
        "operation": state.operation,
        "objects": state.objects,
        "hook": state.hook,
        "reason": state.reason,
        "proposed-by": state.actor,
        "opened-at": time_text(state.opened_at_ms),
        "expires-at": time_text(state.expires_at_ms),
        "decided-by": state.decided_by,
        "decision-reason": state.decision_reason,
    }
    return {**answer, "command": state.command} if with_command else answer


def remembered(refusal: CatalogError) -> IdempotencyRecord:
    """A refusal as its Idempotency-Key is remembered by."""
    body = {"message": refusal.message, "type": refusal.type, "code": refusal.status}
    if isinstance(refusal, ChangeHeld) and refusal.proposal_id is not None:
        body["proposal"] = str(refusal.proposal_id)
    return IdempotencyRecord(refusal.status, body=orjson.dumps(body))


def recorded_hold(record: IdempotencyRecord) -> CatalogError:
    """The refusal a key is remembered by."""
    assert record.body is not None
    body = orjson.loads(record.body)
    refusal = CatalogError.remembered(body["code"], body["type"], body["message"])
    if isinstance(refusal, ChangeHeld) and "proposal" in body:
        refusal.proposal_id = UUID(body["proposal"])
    return refusal


class Proposals:
    """Opens, reads and closes proposals in the log."""

    def __init__(self, connections: Connections, committer: Committer) -> None:
        self._connections = connections
        self._committer = committer

    async def hold(
        self, context: RequestContext, warehouse: Warehouse, command: object, held: PendingApproval
    ) -> tuple[CatalogError, AppendResult | None]:
        """Opens the proposal, or finds the one that is open for the same change: what the client is told.

        With it the result of the append that opened it, which remembers the refusal under the request's key; None where there was none.
        """
        stored = await decided(is_large_request(context), encode, command)
        if stored is None:
            return _cannot_wait(held, context.operation), None
        if stored.bytes_count > HELD_BYTES_MAX:
            return _cannot_wait(held, f"a change of more than {HELD_BYTES_MAX} bytes"), None
        try:
            # What a command sets and removes again is in no state that was checked, but would be in the log.
            for properties in properties_set(command):
                refuse_credential_properties(properties, "properties")
        except BadRequest as credential:
            return credential, None
        change = HeldChange(
            stored.operation,
            stored.key,
            stored.fields,
            context.principal.id,
            held.hook,
            held.message,
            held.expires_in_seconds,
            held.objects,
        )
        for _ in range(_ATTEMPTS_MAX):
            found = await self._open_for(warehouse.id, change.command_key)
            closes, opens = decide_open(found, change, now_ms())
            if opens is None:
                assert found is not None
                return _pending(held, found.id, found.hook, found.reason, found.expires_at_ms), None
            proposal_id = uuid7()
            refusal = _pending(held, proposal_id, opens.hook, opens.reason, opens.expires_at_ms)
            submission = Submission(context, record=remembered(refusal))
            if closes is not None:
                assert found is not None
                submission.add(found.id, warehouse.id, found, [closes])
            submission.add(proposal_id, warehouse.id, None, [opens])
            result = await self._committer.submit(submission)
            match result.outcome:
                case "appended" | "replayed" | "key_reused":
                    return refusal, result
                case "error":
                    raise InternalError("The log refused the proposal")
            # Somebody else opened it, or closed the one that was there: look again.
        raise CommitFailed("Other requests kept opening and closing proposals for the same change; try again")

    async def load(self, proposal_id: UUID) -> ProposalState:
        """The newest state; NoSuchProposal."""
        async with self._connections() as connection:
            return await proposals.find(connection, proposal_id)

    async def why_closed(self, context: RequestContext, warehouse: Warehouse, refusal: CatalogError) -> CatalogError:
        """What stands against an approval: that the proposal is closed, whoever did it, rather than what its change then runs into.

        Where what the change was held for is not the same any more, the proposal is closed by this.
        """
        assert context.approves is not None
        for _ in range(_ATTEMPTS_MAX):
            state = await self.load(context.approves.proposal_id)
            try:
                event = decide_stale(state, now_ms())
            except ProposalClosed as closed:
                return closed
            # An open one was found to be closed: its change, decided now, is another.
            if not isinstance(refusal, ProposalClosed) and not await self._moved_on(state):
                return refusal
            submission = Submission(context)
            submission.add(state.id, warehouse.id, state, [event])
            if (await self._committer.submit(submission)).outcome == "appended":
                return stale(state)
        raise CommitFailed("Other requests kept changing the proposal; try again")

    async def add_approval(self, warehouse: Warehouse, submission: Submission) -> IdempotencyRecord:
        """Adds the approval to the change's own events, in one command: both or neither. What the approval's key is remembered by.

        ProposalClosed where it is too late, or the change would be of anything but what it was held for.
        """
        context = submission.context
        assert context.approves is not None
        state = await self.load(context.approves.proposal_id)
        event = decide_approve(state, object_heads(submission.changes), context.principal.id, now_ms())
        after = submission.add(state.id, warehouse.id, state, [event])
        assert isinstance(after, ProposalState)
        return IdempotencyRecord(200, body=orjson.dumps(proposal_json(after)))

    async def _moved_on(self, state: ProposalState) -> bool:
        if not all("event-id" in each for each in state.objects):
            return True
        heads = {UUID(each["id"]): UUID(each["event-id"]) for each in state.objects if each["event-id"] is not None}
        parents = [UUID(each["parent-id"]) for each in state.objects if each["parent-id"] is not None]
        async with self._connections() as connection:
            return await proposals.have_moved_on(connection, heads, parents)

    async def _open_for(self, warehouse_id: UUID, key: str) -> ProposalState | None:
        async with self._connections() as connection:
            proposal_id = await proposals.open_for(connection, warehouse_id, key)
            found = None if proposal_id is None else await proposals.read_state(connection, proposal_id)
        return None if found is None or found[0].status != "open" else found[0]


def _pending(held: PendingApproval, proposal_id: UUID, hook: str, reason: str, expires_at_ms: int) -> ChangeHeld:
    make = ApprovalRequired if held.refusal_status == 403 else ChangeHeld
    refusal = make(f"Held by {hook}: {reason}. It waits as proposal {proposal_id} for approval until {time_text(expires_at_ms)}")
    refusal.proposal_id = proposal_id
    return refusal


def _cannot_wait(held: PendingApproval, what: str) -> ChangeRefused:
    return ChangeRefused(f"Refused because {held.hook}: {held.message}, and {what} cannot wait for approval")
