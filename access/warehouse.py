"""The warehouse of a request, in its current state or as of a position."""

from dataclasses import dataclass
from uuid import UUID

from ..projections.names import Scope
from ..storage.profiles import StorageProfile


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The warehouse of a request.

    as_of -- the position at which it is read; None: its current state. A past state is read-only.
    """

    id: UUID
    name: str
    project_id: UUID
    profile: StorageProfile
    secret_ref: UUID | None
    exact_names: bool
    as_of: int | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.id, self.exact_names, self.as_of)

    @property
    def prefix(self) -> str:
        """The value of `{prefix}` in its paths; with the position if it is read in the past."""
        return str(self.id) if self.as_of is None else f"{self.id}@{self.as_of}"
