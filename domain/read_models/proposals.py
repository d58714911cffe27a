"""Rows of proposals: one per version."""

import orjson

from domain.proposal import ProposalState
from domain.read_models.rows import Rows


def project(rows: Rows, number: int, after: ProposalState) -> None:
    """The row that event `number` adds."""
    document = {
        "command": after.command,
        "actor": after.actor,
        "opened-at-ms": after.opened_at_ms,
        "objects": after.objects,
        "decided-by": after.decided_by,
        "decision-reason": after.decision_reason,
    }
    rows.proposals.append(
        (
            number,
            after.id,
            after.version,
            after.event_id,
            after.warehouse_id,
            after.status,
            after.operation,
            after.command_key,
            after.hook,
            after.reason,
            after.expires_at_ms,
            orjson.dumps(document),
        )
    )
