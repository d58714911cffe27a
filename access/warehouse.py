"""The warehouse of a request, in its current state or as of a position."""

from dataclasses import dataclass, field
from uuid import UUID

from ..domain.errors import WarehouseInactive, WarehouseReadOnly
from ..domain.warehouse import DeleteProfile, FormatVersionPolicy
from ..projections.names import NameLookup
from ..storage.profiles import StorageProfile


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The warehouse of a request.

    as_of -- the position at which it is read; None: its current state. A past state is read-only.
    event_id -- the warehouse's last event; None: it is about to be created. A command is appended only if this is still the last one.
    reference -- the name or id by which it was found; None: it was the only one.
    """

    id: UUID
    name: str
    project_id: UUID
    profile: StorageProfile
    secret_ref: UUID | None
    exact_names: bool
    as_of: int | None = None
    event_id: UUID | None = None
    reference: str | None = field(default=None, compare=False)
    active: bool = True
    format_versions: FormatVersionPolicy = field(default_factory=FormatVersionPolicy)
    read_only: bool = False
    delete_profile: DeleteProfile = field(default_factory=DeleteProfile)
    purge_default: bool = False

    def inactive_error(self) -> WarehouseInactive:
        """The refusal of a request to an inactive warehouse, as Lakekeeper's."""
        return WarehouseInactive(f"Warehouse is inactive: {self.name}")

    def read_only_error(self) -> WarehouseReadOnly:
        """The refusal of a change in a read-only warehouse."""
        return WarehouseReadOnly(f"Warehouse is read-only: {self.name}")

    @property
    def name_lookup(self) -> NameLookup:
        return NameLookup(self.id, self.exact_names, self.as_of)

    @property
    def prefix(self) -> str:
        """The value of `{prefix}` in its paths; with the position if it is read in the past."""
        return str(self.id) if self.as_of is None else f"{self.id}@{self.as_of}"
