"""Updates of the properties of a namespace or of a warehouse's clients, as in the spec's UpdateNamespacePropertiesRequest."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .errors import UnprocessableEntity


@dataclass(frozen=True, slots=True)
class PropertyUpdate:
    """Keys to remove, and properties to add or replace."""

    removals: Sequence[str] = ()
    updates: Mapping[str, str] = field(default_factory=dict)


def effective_update(before: Mapping[str, str], update: PropertyUpdate, subject: str) -> tuple[dict[str, str], list[str]]:
    """The updates and removals that change `before`.

    Raises UnprocessableEntity (422), about the `subject`, for a key in both.
    """
    for key in update.removals:
        if key in update.updates:
            raise UnprocessableEntity(f"Invalid {subject}: cannot simultaneously set and remove keys: [{key}]")
    removals = [key for key in dict.fromkeys(update.removals) if key in before]
    return {key: value for key, value in update.updates.items() if before.get(key) != value}, removals


def updated(before: Mapping[str, str], updates: Mapping[str, str], removals: Collection[str]) -> dict[str, str]:
    """The properties after an update."""
    removed = set(removals)
    return {key: value for key, value in before.items() if key not in removed} | dict(updates)
