"""A warehouse as a request names it, now or as of a position."""

from dataclasses import dataclass
from uuid import UUID

from ..projections.names import Scope
from ..storage.profiles import StorageProfile


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse as a request named it.

    as_of -- the position it is read at, None for now; a past is read only.
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
        """What `{prefix}` of its addresses is, pinned to the position where it is read in the past."""
        return str(self.id) if self.as_of is None else f"{self.id}@{self.as_of}"
