"""Opens a held change as a proposal, and closes it: approved with the events of the change, rejected, expired or stale."""

from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...approval.hooks import PendingApproval
from ...approval.proposed_change import changed_objects
from ...database.connections import OpenConnection
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
from ..execution.append_request import AppendRequest, AppendResult, IdempotencyRecord
from ..execution.clock import now_ms
from ..execution.committer import Committer
from ..execution.offload import in_thread_if, is_large_request
from ..execution.refusals import refusal_record
from ..execution.resolver import OutdatedRead

HELD_BYTES_MAX = 1024 * 1024
"""Limit on a stored change as JSON. It is kept in the log, and approving it reads the whole of it."""

# Attempts to write a proposal. An attempt fails if another request for the same change is faster.
_ATTEMPTS_MAX = 100


def proposal_json(state: ProposalState, *, with_command: bool = True) -> Json:
    """A proposal as JSON for the management API."""
    document: Json = {
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
    return {**document, "command": state.command} if with_command else document


class Proposals:
    """Opens, reads and closes proposals in the log."""

    def __init__(self, open_connection: OpenConnection, committer: Committer) -> None:
        self._open_connection = open_connection
        self._committer = committer

    async def hold(
        self, context: RequestContext, warehouse: Warehouse, command: object, held: PendingApproval
    ) -> tuple[CatalogError, AppendResult | None]:
        """Opens a proposal, or finds the open one for the same change, and returns the refusal for the client.

        Also returns the result of the append that opened it and stored the refusal under the request's key; None if nothing was appended.
        """
        try:
            change = await _change_to_hold(context, command, held)
        except (ChangeRefused, BadRequest) as refused:
            return refused, None
        for _ in range(_ATTEMPTS_MAX):
            found = await self._open_for(warehouse.id, change.command_key)
            closes, opens = decide_open(found, change, now_ms())
            if opens is None:
                assert found is not None
                return _pending(held, found.id, found.hook, found.reason, found.expires_at_ms), None
            proposal_id = uuid7()
            refusal = _pending(held, proposal_id, opens.hook, opens.reason, opens.expires_at_ms)
            append_request = AppendRequest(context, idempotency_record=refusal_record(refusal))
            if closes is not None:
                assert found is not None
                append_request.add(found.id, warehouse.id, found, [closes])
            append_request.add(proposal_id, warehouse.id, None, [opens])
            append_request.decided_on_warehouse = warehouse
            result = await self._committer.submit(append_request)
            match result.outcome:
                case "appended" | "replayed" | "key_reused":
                    return refusal, result
                case "warehouse_changed":
                    raise OutdatedRead
                case "error":
                    raise InternalError("Postgres rejected the proposal")
            # Another request opened or closed a proposal for the change. Look again.
        raise CommitFailed("Other requests kept opening and closing proposals for the same change; try again")

    async def load(self, proposal_id: UUID) -> ProposalState:
        """The newest state. Raises NoSuchProposal."""
        async with self._open_connection() as connection:
            return await proposals.find(connection, proposal_id)

    async def closed_or_refusal(self, context: RequestContext, warehouse: Warehouse, refusal: CatalogError) -> CatalogError:
        """The error for an approval whose change was refused: ProposalClosed if the proposal is closed, otherwise the refusal.

        If an object of the change was changed meanwhile, the proposal is closed as stale.
        """
        assert context.approves is not None
        for _ in range(_ATTEMPTS_MAX):
            state = await self.load(context.approves.proposal_id)
            try:
                event = decide_stale(state, now_ms())
            except ProposalClosed as closed:
                return closed
            # The refusal was that the proposal is closed, so the change was decided for another state.
            if not isinstance(refusal, ProposalClosed) and not await self._moved_on(state):
                return refusal
            append_request = AppendRequest(context)
            append_request.add(state.id, warehouse.id, state, [event])
            if (await self._committer.submit(append_request)).outcome == "appended":
                return stale(state)
        raise CommitFailed("Other requests kept changing the proposal; try again")

    async def add_approval(self, warehouse: Warehouse, append_request: AppendRequest) -> IdempotencyRecord:
        """Adds the approval to the command of the change, so that both are committed or neither. Returns the record for the
        Idempotency-Key.

        Raises ProposalClosed if the proposal has expired, or if the change affects other objects or states than those that were held.
        """
        context = append_request.context
        assert context.approves is not None
        state = await self.load(context.approves.proposal_id)
        event = decide_approve(state, changed_objects(warehouse, append_request.changes), context.principal.id, now_ms())
        after = append_request.add(state.id, warehouse.id, state, [event])
        assert isinstance(after, ProposalState)
        return IdempotencyRecord(200, body=orjson.dumps(proposal_json(after)))

    async def _moved_on(self, state: ProposalState) -> bool:
        if not all("event-id" in each for each in state.objects):
            return True
        newest_events = {UUID(each["id"]): UUID(each["event-id"]) for each in state.objects if each["event-id"] is not None}
        parents = [UUID(each["parent-id"]) for each in state.objects if each["parent-id"] is not None]
        async with self._open_connection() as connection:
            return await proposals.have_moved_on(connection, newest_events, parents)

    async def _open_for(self, warehouse_id: UUID, key: str) -> ProposalState | None:
        async with self._open_connection() as connection:
            proposal_id = await proposals.open_for(connection, warehouse_id, key)
            found = None if proposal_id is None else await proposals.read_state(connection, proposal_id)
        return None if found is None or found[0].status != "open" else found[0]


def _pending(held: PendingApproval, proposal_id: UUID, hook: str, reason: str, expires_at_ms: int) -> ChangeHeld:
    make = ApprovalRequired if held.refusal_status == 403 else ChangeHeld
    refusal = make(f"Held by {hook}: {reason}. Proposal {proposal_id} waits for approval until {time_text(expires_at_ms)}")
    refusal.proposal_id = proposal_id
    return refusal


async def _change_to_hold(context: RequestContext, command: object, held: PendingApproval) -> HeldChange:
    """The change as a proposal stores it. Raises ChangeRefused if it cannot wait, BadRequest if it contains a credential."""
    stored = await in_thread_if(is_large_request(context), encode, command)
    if stored is None:
        raise _cannot_wait(held, context.operation)
    if stored.bytes_count > HELD_BYTES_MAX:
        raise _cannot_wait(held, f"a change of more than {HELD_BYTES_MAX} bytes")
    # Properties that a command both sets and removes are in no checked state, but would be in the log.
    for properties in properties_set(command):
        refuse_credential_properties(properties, "properties")
    return HeldChange(
        stored.operation,
        stored.key,
        stored.fields,
        context.principal.id,
        held.hook,
        held.message,
        held.expires_in_seconds,
        held.objects,
    )


def _cannot_wait(held: PendingApproval, what: str) -> ChangeRefused:
    return ChangeRefused(f"Refused by {held.hook}: {held.message}; {what} cannot wait for approval")
