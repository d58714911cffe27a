"""Proposals: list, load, approve and reject held changes (`/management/v1/proposals`)."""

from uuid import UUID

from aiohttp import web

from ...access.resolve_warehouse import resolve_warehouse
from ...access.warehouse import Warehouse
from ...commands.execution.answer import Answer
from ...commands.proposals.approve_proposal import ApproveProposal, approve_proposal
from ...commands.proposals.proposals import proposal_json
from ...commands.proposals.reject_proposal import RejectProposal, reject_proposal
from ...domain.errors import BadRequest, NoSuchProposal
from ...domain.identifiers import uuid_or_none
from ...domain.proposal import PROPOSAL_STATUSES, ProposalState
from ...queries import list_proposals as question
from ...queries.load_proposal import load_proposal
from ..api_request import BODY_BUDGET, POSITION_HEADER, ApiRequest, room_for_parsed
from ..byte_budget import BODY_HELD, HeldBytes
from ..paging import listing_digest, page_token, parse_page
from ..path_parameters import decode_segment, warehouse_reference

LIST_PARAMETERS = frozenset({"status", "warehouse", "pageToken", "pageSize"})
REASON_LENGTH_MAX = 2_000


async def list_proposals(call: ApiRequest) -> web.Response:
    """A page, the oldest first; `status` and `warehouse` (which may name a past) choose. Commands are told by loading one."""
    query = call.query
    status = next((known for known in PROPOSAL_STATUSES if known == query.get("status")), None)
    if query.get("status") and status is None:
        raise BadRequest(f"Invalid parameter 'status': must be one of {', '.join(PROPOSAL_STATUSES)}")
    reference = query.get("warehouse")
    warehouse = None
    if reference:
        warehouse = await resolve_warehouse(call.catalog.backends, call.context.project_id, warehouse_reference(reference))
    listing = listing_digest("proposals", status or "", "" if warehouse is None else warehouse.prefix)
    asked = parse_page(query, listing, call.catalog.limits)
    after, size = None if asked.after is None else _proposal_id(asked.after), asked.size or call.catalog.limits.page_size_default
    found, last = await question.list_proposals(call.catalog.queries, call.context, warehouse, status, after=after, size=size)
    token = None if last is None else page_token(listing, str(last))
    return await call.json({"proposals": [proposal_json(each, with_command=False) for each in found], "next-page-token": token})


async def load(call: ApiRequest) -> web.Response:
    state, _, held = await _proposal(call)
    try:
        return await call.json(proposal_json(state))
    finally:
        held.release()


async def approve(call: ApiRequest) -> web.Response:
    """Runs the change again as things are now, with the requirements it carried; both it and the approval come to effect, or neither."""
    # Given back with the request.
    state, stored_bytes, call.request[BODY_HELD] = await _proposal(call)
    warehouse = await _warehouse(call, state)
    command = ApproveProposal(state, stored_bytes)
    answer = await approve_proposal(call.catalog.commands, call.command_context(warehouse, b"", ()), warehouse, command)
    return await _answered(call, answer)


async def reject(call: ApiRequest) -> web.Response:
    state, _, held = await _proposal(call)
    held.release()
    body, fields = await call.fields()
    reason = fields.text("reason")
    if not reason.strip() or len(reason) > REASON_LENGTH_MAX:
        raise fields.invalid("reason", f"must not be blank, and have at most {REASON_LENGTH_MAX} characters")
    warehouse = await _warehouse(call, state)
    command = RejectProposal(state.id, reason)
    answer = await reject_proposal(call.catalog.commands, call.command_context(warehouse, body, ()), warehouse, command)
    return await _answered(call, answer)


async def _proposal(call: ApiRequest) -> tuple[ProposalState, int, HeldBytes]:
    """The proposal, how many bytes it is stored in, and the room it takes: as much as a body that comes."""
    held, stored_bytes = HeldBytes(call.app[BODY_BUDGET]), 0

    async def make_room(document: bytes) -> None:
        nonlocal stored_bytes
        stored_bytes = len(document)
        await room_for_parsed(document, held)

    proposal_id = _proposal_id(decode_segment(call.segments["proposal"], "proposal"))
    return await load_proposal(call.catalog.queries, call.context, proposal_id, make_room), stored_bytes, held


def _proposal_id(text: str) -> UUID:
    proposal_id = uuid_or_none(text)
    if proposal_id is None:
        raise NoSuchProposal(f"Proposal does not exist: {text[:64]}")
    return proposal_id


async def _warehouse(call: ApiRequest, state: ProposalState) -> Warehouse:
    return await resolve_warehouse(call.catalog.backends, call.context.project_id, str(state.warehouse_id))


async def _answered(call: ApiRequest, answer: Answer) -> web.Response:
    assert answer.body is not None
    return await call.json_bytes(answer.body, status=answer.status, headers={POSITION_HEADER: str(answer.position)})
