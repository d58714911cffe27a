"""Rows of proposals: one for each version."""

import orjson

from ..proposal import ProposalState
from .definitions import ProposalRow
from .rows import Rows


def add_rows(rows: Rows, position: int, after: ProposalState) -> None:
    """The row that the event at `position` adds."""
    document = {
        "command": after.command,
        "actor": after.actor,
        "opened-at-ms": after.opened_at_ms,
        "objects": after.objects,
        "decided-by": after.decided_by,
        "decision-reason": after.decision_reason,
    }
    rows.proposals.append(
        ProposalRow(
            proposal_id=after.id,
            version=after.version,
            position=position,
            event_id=after.event_id,
            warehouse_id=after.warehouse_id,
            status=after.status,
            operation=after.operation,
            command_key=after.command_key,
            hook=after.hook,
            reason=after.reason,
            expires_at_ms=after.expires_at_ms,
            document=orjson.dumps(document),
        )
    )
