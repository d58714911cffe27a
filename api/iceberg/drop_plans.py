"""What a recursive drop of a namespace would do, as the dry run returns it and `icecore namespace drop --dry-run` prints it."""

from collections import Counter
from typing import Any

from ...commands.namespaces.drop_namespace_tree import DropPlan
from ...domain.namespace_tree import Action, LeftObject, PlannedDrop
from ...domain.proposal import time_text_or_none


def written_plan(plan: DropPlan) -> dict[str, Any]:
    """The plan as JSON: first what is left as it is, then the objects in the order in which they would be dropped, the content of a
    namespace before itself.
    """
    objects = [_written(plan.left_action, each) for each in plan.left]
    objects += [_written(each.action, _dropped(each), soft_deleted=each.object.state.status == "soft-deleted") for each in plan.drops]
    counts = Counter(each["type"] for each in objects)
    return {
        "final": plan.expires_at_ms is None,
        "expiration-date": time_text_or_none(plan.expires_at_ms),
        "namespaces": counts["namespace"],
        "tables": counts["table"],
        "views": counts["view"],
        "objects": objects,
        "soft-deleted-not-listed": plan.left_count - len(plan.left),
    }


def _dropped(planned: PlannedDrop) -> LeftObject:
    each = planned.object
    return LeftObject(each.state.id, each.kind, each.path, each.state.protected, planned.purges)


def _written(action: Action, each: LeftObject, *, soft_deleted: bool = True) -> dict[str, Any]:
    return {
        "id": each.id,
        "type": each.kind,
        "namespace": each.path[:-1],
        "name": each.path[-1],
        "protected": each.protected,
        "soft-deleted": soft_deleted,
        "action": action,
        "purge": each.purges,
    }
