"""The storage profile of a warehouse: where its files may lie, and the door every location of a client passes."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any
from uuid import UUID

from storage.locations import StorageLocation, check_characters, refuse_location
from storage.profile_fields import ProfileFields


class StorageProfile(ABC):
    """A parsed storage profile; immutable by convention. Two are equal when their JSON is."""

    type: str
    missing_file_check: bool = False
    """Whether a load looks if the metadata file is still there."""

    def __init__(self, base: StorageLocation, fields: dict[str, Any], allowed: tuple[StorageLocation, ...]) -> None:
        self.base = base
        self.allowed = allowed
        self.fields = fields
        self.roots = (base, *allowed)

    @property
    @abstractmethod
    def storage_identity(self) -> str:
        """What tells this store from others with buckets of the same name; holds no `|`."""

    @abstractmethod
    def client_config(self) -> dict[str, str]:
        """What loadTable's `config` tells engines about this store; never a credential."""

    def to_json(self) -> dict[str, Any]:
        """The profile as `parse_storage_profile` takes it, defaults filled in."""
        allowed = [location.spelled for location in self.allowed]
        return {"type": self.type, **self.fields, "allowed-locations": allowed}

    def default_table_location(self, object_id: UUID) -> StorageLocation:
        """Where a table or view lives when nobody says: by its id alone, so that no name ever enters a path."""
        return self.base.child(str(object_id))

    def permit(self, text: str, *, imported: bool = False, field: str = "location") -> StorageLocation:
        """`text` as a location of this warehouse: strictly below its base, or at or below an allowed location.

        The rules bind what stands below; `imported` lets `%` stand in it. Refuses with BadRequest naming `field`.
        """
        location = StorageLocation.parse_structure(text, what=field)
        root = self.root_of(location)
        if root is None:
            raise refuse_location(field, f"must lie below {self.base} or in one of the warehouse's allowed-locations", text)
        self.check_scheme(location, field)
        check_characters(location.below(root), text, imported=imported, what=field)
        return location

    def root_of(self, location: StorageLocation) -> StorageLocation | None:
        """The base or allowed location that `location` belongs to, the innermost when several do."""
        innermost = self.base if self.base.contains(location) and location != self.base else None
        for root in self.allowed:
            if root.contains(location) and (innermost is None or len(root.segments) > len(innermost.segments)):
                innermost = root
        return innermost

    def check_scheme(self, location: StorageLocation, field: str) -> None:  # noqa: B027 - most profiles have one scheme
        """Refuse a spelling of the scheme that the profile does not let clients use."""

    @cached_property
    def _compared(self) -> tuple[str, dict[str, Any]]:
        """The type first: it is cheap to tell apart. Made once, because every load of a table looks its store up by the profile."""
        return self.type, self.to_json()

    @cached_property
    def _hash(self) -> int:
        return hash((self.type, self.base, self.allowed))

    def __eq__(self, other: object) -> bool:
        return self._compared == other._compared if isinstance(other, StorageProfile) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base})"


class LocalProfile(StorageProfile):
    """A directory that the server and every client reach under the same path."""

    type = "local"
    missing_file_check = True

    @classmethod
    def parse(cls, fields: ProfileFields) -> "LocalProfile":
        directory = fields.text("directory")
        if not directory.startswith("/") or not directory.strip("/"):
            raise fields.refusal("directory", "must be an absolute path, not the root")
        base = StorageLocation.parse_base(f"file://{directory}", what="storage-profile: directory")
        allowed = fields.allowed_locations("file")
        fields.end()
        return cls(base, {"directory": directory.removesuffix("/")}, allowed)

    @property
    def storage_identity(self) -> str:
        return "local"

    def client_config(self) -> dict[str, str]:
        return {}
