"""Namespaces with all that is in them: decides what a recursive drop does to each object."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from . import namespace, table, view
from .errors import NamespaceProtected, NamespaceTreeTooLarge
from .events import Event
from .identifiers import ContentKind
from .namespace import NamespaceState
from .table import TableState, keeps_its_files
from .view import ViewState

Action = Literal["drop", "soft-delete", "expire", "keep"]
"""What becomes of an object by a recursive drop: a final drop, a soft deletion, the expiry of what was soft-deleted before, or nothing."""
PROTECTED_NAMED_MAX = 10
"""Limit on the protected objects that a refusal names."""


@dataclass(frozen=True, slots=True)
class TreeObject:
    """An object in a tree. path -- its levels, outermost first, with its own name."""

    path: tuple[str, ...]
    state: NamespaceState | TableState | ViewState

    @property
    def kind(self) -> ContentKind:
        match self.state:
            case NamespaceState():
                return "namespace"
            case TableState():
                return "table"
            case ViewState():
                return "view"

    @property
    def described(self) -> str:
        """Its kind, name and id, for messages."""
        return f"{self.kind} {'.'.join(self.path)} ({self.state.id})"


@dataclass(frozen=True, slots=True)
class PlannedDrop:
    """What a recursive drop does to an object, with its event. purges -- whether its files are deleted in the end."""

    object: TreeObject
    action: Action
    event: Event
    purges: bool = False


@dataclass(frozen=True, slots=True)
class SoftDeletedObject:
    """An object in a tree that was soft-deleted before. purges -- whether its files are deleted in the end."""

    id: UUID
    kind: ContentKind
    path: tuple[str, ...]
    protected: bool
    purges: bool


def too_large(root: str, reason: str) -> NamespaceTreeTooLarge:
    """The error for a namespace with too much in it for one command."""
    return NamespaceTreeTooLarge(f"Namespace {root} is too large for one command: {reason}. Drop its child namespaces or tables first")


def check_protection(objects: Sequence[TreeObject], root: str) -> None:
    """Raises NamespaceProtected if the namespace or something in it is protected. It names at most PROTECTED_NAMED_MAX objects."""
    found = [each for each in objects if each.state.protected]
    if not found:
        return
    named = "; ".join(each.described for each in found[:PROTECTED_NAMED_MAX])
    more = f" and {len(found) - PROTECTED_NAMED_MAX} more" if len(found) > PROTECTED_NAMED_MAX else ""
    raise NamespaceProtected(
        f"Namespace {root} is protected or contains protected objects: {named}{more}; remove the protection, or drop it with force"
    )


def common_expiry(expires_at_ms: int, last_expiry_ms: int | None) -> int:
    """When a soft deletion of a tree expires: not before what was soft-deleted in it already, which could not be undropped without its
    namespace.

    last_expiry_ms -- of what was soft-deleted already.
    """
    return expires_at_ms if last_expiry_ms is None else max(expires_at_ms, last_expiry_ms)


def plan_drop(objects: Sequence[TreeObject], *, purge_requested: bool, expires_at_ms: int | None) -> list[PlannedDrop]:
    """What the recursive drop of the first of these objects does, in the order of its events: the content of a namespace before itself.

    objects -- the namespace, then what is in it, each after its parent.
    expires_at_ms -- everything can be undropped until then; None: the drop is final, also of those that were soft-deleted before. Only
    then may there be such.
    """
    root_id = objects[0].state.id
    namespaces = [each for each in objects if each.kind == "namespace"]
    ordered = [*(each for each in objects if each.kind != "namespace"), *reversed(namespaces)]
    return [_plan(each, root_id, purge_requested=purge_requested, expires_at_ms=expires_at_ms) for each in ordered]


def _plan(each: TreeObject, root_id: UUID, *, purge_requested: bool, expires_at_ms: int | None) -> PlannedDrop:
    state = each.state
    purges = isinstance(state, TableState) and (state.purges if state.status != "live" else purge_requested and not keeps_its_files(state))
    if state.status != "live":
        assert expires_at_ms is None, "a soft deletion leaves it as it is"
        return PlannedDrop(each, "expire", _expiry(state), purges)
    action: Action = "drop" if expires_at_ms is None else "soft-delete"
    match state:
        case NamespaceState():
            return PlannedDrop(each, action, namespace.decide_drop_in_tree(state, root_id, expires_at_ms))
        case TableState():
            event = table.decide_drop(state, purge_requested=purge_requested, force=True, expires_at_ms=expires_at_ms)
            return PlannedDrop(each, action, event, purges)
        case ViewState():
            return PlannedDrop(each, action, view.decide_drop(state, expires_at_ms, force=True))


def _expiry(state: NamespaceState | TableState | ViewState) -> Event:
    event: Event | None
    match state:
        case NamespaceState():
            event = namespace.decide_expire(state, None)
        case TableState():
            event = table.decide_expire(state, None)
        case ViewState():
            event = view.decide_expire(state, None)
    assert event is not None, "soft-deleted"
    return event
