"""Proposals: list, load, approve and reject held changes (`/management/v1/proposals`)."""

from uuid import UUID

from aiohttp import web

from ...access.resolve_warehouse import resolve_warehouse
from ...access.warehouse import Warehouse
from ...commands.execution.command_response import CommandResponse
from ...commands.proposals.approve_proposal import ApproveProposal, approve_proposal
from ...commands.proposals.proposals import proposal_json
from ...commands.proposals.reject_proposal import RejectProposal, reject_proposal
from ...domain.errors import BadRequest, NoSuchProposal
from ...domain.identifiers import uuid_or_none
from ...domain.proposal import PROPOSAL_STATUSES, ProposalState
from ...queries import list_proposals as list_proposals_query
from ...queries.load_proposal import load_proposal
from ..api_request import BODY_BUDGET, POSITION_HEADER, ApiRequest
from ..bodies import reserve_for_parsed
from ..byte_budget import BODY_RESERVATION, BudgetReservation
from ..paging import listing_digest, page_token, parse_page
from ..path_parameters import decode_segment, parse_warehouse_reference

LIST_PARAMETERS = frozenset({"status", "warehouse", "pageToken", "pageSize"})
REASON_LENGTH_MAX = 2_000


async def list_proposals(request: ApiRequest) -> web.Response:
    """A page of proposals, oldest first, filtered by `status` and `warehouse` (which may be a past state). It does not contain their
    commands.
    """
    query = request.query
    status = next((known for known in PROPOSAL_STATUSES if known == query.get("status")), None)
    if query.get("status") and status is None:
        raise BadRequest(f"Invalid parameter 'status': must be one of {', '.join(PROPOSAL_STATUSES)}")
    reference = query.get("warehouse")
    warehouse = None
    if reference:
        warehouse = await resolve_warehouse(request.catalog.backends, request.context.project_id, parse_warehouse_reference(reference))
    listing = listing_digest("proposals", status or "", "" if warehouse is None else warehouse.prefix)
    requested = parse_page(query, listing, request.catalog.limits, size_alone=True)
    after, size = (
        None if requested.after is None else _proposal_id(requested.after),
        requested.size or request.catalog.limits.page_size_default,
    )
    found, last = await list_proposals_query.list_proposals(
        request.catalog.queries, request.context, warehouse, status, after=after, size=size
    )
    token = None if last is None else page_token(listing, str(last))
    return await request.json({"proposals": [proposal_json(each, with_command=False) for each in found], "next-page-token": token})


async def load(request: ApiRequest) -> web.Response:
    state, _, reservation = await _proposal(request)
    try:
        return await request.json(proposal_json(state))
    finally:
        reservation.release()


async def approve(request: ApiRequest) -> web.Response:
    """Executes the change on the current state, with its original requirements. The change and the approval are committed together."""
    # The memory is released with the request.
    state, stored_bytes, request.http_request[BODY_RESERVATION] = await _proposal(request)
    warehouse = await _warehouse(request, state)
    command = ApproveProposal(state, stored_bytes)
    result = await approve_proposal(request.catalog.commands, request.command_context(warehouse, b"", ()), warehouse, command)
    return await _response(request, result)


async def reject(request: ApiRequest) -> web.Response:
    state, _, reservation = await _proposal(request)
    reservation.release()
    body, fields = await request.read_body_fields()
    reason = fields.text("reason")
    if not reason.strip() or len(reason) > REASON_LENGTH_MAX:
        raise fields.invalid_error("reason", f"must not be blank, and have at most {REASON_LENGTH_MAX} characters")
    warehouse = await _warehouse(request, state)
    command = RejectProposal(state.id, reason)
    result = await reject_proposal(request.catalog.commands, request.command_context(warehouse, body, ()), warehouse, command)
    return await _response(request, result)


async def _proposal(request: ApiRequest) -> tuple[ProposalState, int, BudgetReservation]:
    """The proposal, the size of its JSON, and the memory reserved for it: as much as for a request's body."""
    reservation, stored_bytes = BudgetReservation(request.app[BODY_BUDGET]), 0

    async def reserve_memory(document: bytes) -> None:
        nonlocal stored_bytes
        stored_bytes = len(document)
        await reserve_for_parsed(document, reservation)

    proposal_id = _proposal_id(decode_segment(request.segments["proposal"], "proposal"))
    return await load_proposal(request.catalog.queries, request.context, proposal_id, reserve_memory), stored_bytes, reservation


def _proposal_id(text: str) -> UUID:
    proposal_id = uuid_or_none(text)
    if proposal_id is None:
        raise NoSuchProposal(f"Proposal does not exist: {text[:64]}")
    return proposal_id


async def _warehouse(request: ApiRequest, state: ProposalState) -> Warehouse:
    return await resolve_warehouse(request.catalog.backends, request.context.project_id, str(state.warehouse_id))


async def _response(request: ApiRequest, result: CommandResponse) -> web.Response:
    assert result.body is not None
    return await request.json_bytes(result.body, status=result.status, headers={POSITION_HEADER: str(result.position)})
