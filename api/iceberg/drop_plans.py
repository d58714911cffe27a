"""What a recursive drop of a namespace would do, as the dry run returns it and `icecore namespace drop --dry-run` prints it."""

from collections import Counter
from typing import Any

from ...commands.namespaces.drop_namespace_tree import DropPlan
from ...domain.proposal import time_text_or_none


def written_plan(plan: DropPlan) -> dict[str, Any]:
    """The plan as JSON. The objects are in the order in which they would be dropped: the content of a namespace before itself."""
    counts = Counter(each.object.kind for each in plan.drops)
    return {
        "final": plan.expires_at_ms is None,
        "expiration-date": time_text_or_none(plan.expires_at_ms),
        "namespaces": counts["namespace"],
        "tables": counts["table"],
        "views": counts["view"],
        "objects": [
            {
                "id": each.object.state.id,
                "type": each.object.kind,
                "namespace": each.object.path[:-1],
                "name": each.object.path[-1],
                "protected": each.object.state.protected,
                "soft-deleted": each.object.state.status == "soft-deleted",
                "action": each.action,
                "purge": each.purges,
            }
            for each in plan.drops
        ],
    }
