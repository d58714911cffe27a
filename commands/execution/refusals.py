"""Refusals in the record of an Idempotency-Key: a repeated request is refused as the first one was."""

from uuid import UUID

import orjson

from ...domain.errors import CatalogError, ChangeHeld
from .append_request import IdempotencyRecord


def refusal_record(refusal: CatalogError) -> IdempotencyRecord:
    """The record of a refusal for its Idempotency-Key."""
    body = {"message": refusal.message, "type": refusal.type, "code": refusal.status}
    if isinstance(refusal, ChangeHeld) and refusal.proposal_id is not None:
        body["proposal"] = str(refusal.proposal_id)
    return IdempotencyRecord(refusal.status, body=orjson.dumps(body))


def stored_refusal(record: IdempotencyRecord) -> CatalogError:
    """The refusal in the record of an Idempotency-Key."""
    assert record.body is not None
    body = orjson.loads(record.body)
    refusal = CatalogError.from_record(body["code"], body["type"], body["message"])
    if isinstance(refusal, ChangeHeld) and "proposal" in body:
        refusal.proposal_id = UUID(body["proposal"])
    return refusal
