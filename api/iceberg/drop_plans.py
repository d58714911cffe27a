"""What a recursive drop of a namespace would do, as the dry run returns it and `icecore namespace drop --dry-run` prints it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ...commands.namespaces.drop_namespace_tree import DropPlan
from ...domain.identifiers import ContentKind
from ...domain.namespace_tree import Action, PlannedDrop, SoftDeletedObject
from ...domain.proposal import time_text_or_none


def written_plan(plan: DropPlan) -> dict[str, Any]:
    """The plan as JSON: first what is soft-deleted and not dropped by the command itself, then the objects in the order in which they would
    be dropped, the content of a namespace before itself. The counts are of what is dropped.
    """
    counts = Counter(each.object.kind for each in plan.drops)
    return {
        "final": plan.expires_at_ms is None,
        "expiration-date": time_text_or_none(plan.expires_at_ms),
        "namespaces": counts["namespace"],
        "tables": counts["table"],
        "views": counts["view"],
        "objects": [*(_soft_deleted(each, plan.soft_deleted_action) for each in plan.soft_deleted), *map(_dropped, plan.drops)],
        "soft-deleted-not-listed": plan.soft_deleted_count - len(plan.soft_deleted),
    }


def _dropped(planned: PlannedDrop) -> dict[str, Any]:
    each = planned.object
    soft_deleted = each.state.status == "soft-deleted"
    return _written(each.state.id, each.kind, each.path, each.state.protected, soft_deleted, planned.action, planned.purges)


def _soft_deleted(each: SoftDeletedObject, action: Action) -> dict[str, Any]:
    return _written(each.id, each.kind, each.path, each.protected, True, action, each.purges)


def _written(
    object_id: UUID, kind: ContentKind, path: Sequence[str], protected: bool, soft_deleted: bool, action: Action, purges: bool
) -> dict[str, Any]:
    return {
        "id": object_id,
        "type": kind,
        "namespace": path[:-1],
        "name": path[-1],
        "protected": protected,
        "soft-deleted": soft_deleted,
        "action": action,
        "purge": purges,
    }
