"""The storage profile of a warehouse: where its files are, and which locations clients may use."""

import re
from abc import abstractmethod
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

from pydantic import Field, PlainSerializer, PlainValidator, field_validator, model_validator

from ..domain.errors import BadRequest, UnsupportedOperation
from ..domain.identifiers import NAME_BYTES_MAX
from .json_fields import JsonFields, Text
from .locations import LOCATION_BYTES_MAX, StorageLocation, check_characters, invalid_location_error

ALLOWED_LOCATIONS_MAX = 100
"""Entries of a profile's `allowed-locations`."""
NAMESPACE_LOCATION_BYTES_MAX = LOCATION_BYTES_MAX - NAME_BYTES_MAX - len("/-") - 32
"""UTF-8 bytes of a namespace's location below its root. Trino adds a table's name, a dash and a UUID of 32 digits."""
_TEMPLATE_LENGTH_MAX = 100
_TEMPLATE = re.compile(r"(?=.{1,100}$)(?!\.)[A-Za-z0-9_.-]*\{uuid\}[A-Za-z0-9_.-]*")
_ALLOWED = "storage-profile: allowed-locations"


def _allowed(value: object) -> StorageLocation:
    if not isinstance(value, str):
        raise ValueError("must be a location")
    return StorageLocation.parse_base(value, field=_ALLOWED)


_Location = Annotated[StorageLocation, PlainValidator(_allowed), PlainSerializer(lambda location: location.text)]


class StorageLayout(JsonFields):
    """Lakekeeper's storage layout: where new tables and views are that name no location.

    default -- in the location of their namespace. tabular-only -- in the folder `tabular` of the base.
    """

    type: Literal["default", "tabular-only", "full-hierarchy"]
    namespace: Text | None = None
    tabular: Text | None = None

    @model_validator(mode="after")
    def _check_templates(self) -> Self:
        """Raises UnsupportedOperation for templates with names, and for folders of namespaces inside each other."""
        if any("{name}" in template for template in (self.namespace, self.tabular) if template is not None):
            raise UnsupportedOperation(
                "Field 'storage-layout' must not use {name}: paths never contain names, so that a rename moves no file"
            )
        if self.type == "full-hierarchy":
            raise UnsupportedOperation(
                "Field 'storage-layout' must not be full-hierarchy: locations of namespaces are not inside each other"
            )
        if self.namespace is not None or (self.tabular is not None) != (self.type == "tabular-only"):
            raise BadRequest(
                "Invalid storage-profile: a storage-layout of the type tabular-only needs the field tabular, and one of the type "
                "default has no template"
            )
        if self.tabular is not None and _TEMPLATE.fullmatch(self.tabular) is None:
            raise BadRequest(
                f"Invalid storage-profile: storage-layout: tabular must contain {{uuid}} exactly once, and otherwise only a-z, A-Z, 0-9, "
                f"'_', '.' and '-', at most {_TEMPLATE_LENGTH_MAX} characters, and must not begin with '.'"
            )
        return self


class StorageProfile(JsonFields):
    """A parsed storage profile. Two are equal when their JSON is."""

    type: str
    allowed: Annotated[
        tuple[_Location, ...], Field(alias="allowed-locations", max_length=ALLOWED_LOCATIONS_MAX, strict=False, fail_fast=True)
    ] = ()

    storage_layout: StorageLayout | None = None

    kind: ClassVar[str]
    """The kind of store (STORE_KIND_BY_SCHEME in storage/locations.py), with which the keys of its locations begin."""
    missing_file_check: ClassVar[bool] = False
    """Whether a load checks that the metadata file exists."""

    @field_validator("storage_layout", mode="before")
    @classmethod
    def _fill_layout(cls, layout: object) -> object:
        return {"type": "default"} if layout == {} else layout

    @field_validator("allowed")
    @classmethod
    def _check_allowed(cls, allowed: tuple[StorageLocation, ...]) -> tuple[StorageLocation, ...]:
        for location in allowed:
            if not location.key.startswith(f"{cls.kind}:"):
                raise invalid_location_error(_ALLOWED, f"must be on the profile's kind of store ({cls.kind})", location.text)
            if cls.kind == "file" and not location.segments:
                raise invalid_location_error(_ALLOWED, "must not be the root of the file system", location.text)
        return allowed

    @model_validator(mode="after")
    def _check_base(self) -> Self:
        assert self.base.segments is not None, "evaluating `base` refuses an invalid base at once"
        return self

    @cached_property
    @abstractmethod
    def base(self) -> StorageLocation:
        """The folder of the warehouse."""

    @cached_property
    def roots(self) -> tuple[StorageLocation, ...]:
        return (self.base, *self.allowed)

    @property
    @abstractmethod
    def storage_identity(self) -> str:
        """Distinguishes this store from others with buckets of the same name; contains no `|`."""

    @property
    def endpoint_url(self) -> str | None:
        """Where requests to the store are sent; None if its locations say it."""
        return None

    def client_config(self) -> dict[str, str]:
        """Properties with which clients reach the store, the `defaults` of /v1/config; never a credential."""
        return {}

    def soft_deletion_config(self) -> dict[str, str]:
        """More of them, in a warehouse with soft deletion. They keep clients from deleting files."""
        return {}

    def replacing(self, current: "StorageProfile") -> Self:
        """This profile as an update of `current`: the storage layout stays if none is given, as in Lakekeeper."""
        if "storage_layout" in self.model_fields_set:
            return self
        return self.model_copy(update={"storage_layout": current.storage_layout})

    def default_namespace_location(self, namespace_id: UUID) -> StorageLocation:
        """The default location of a namespace: a folder named by its id, so that paths never contain names; a child's is not inside it."""
        return self.base.child(str(namespace_id))

    def default_tabular_location(self, namespace_location: str, tabular_id: UUID) -> StorageLocation:
        """The default location of a table or view, named by its id."""
        if self.storage_layout is None or self.storage_layout.tabular is None:
            return StorageLocation.parse_structure(namespace_location, field="location").child(str(tabular_id))
        return self.base.child(self.storage_layout.tabular.replace("{uuid}", str(tabular_id)))

    def permit_namespace(self, text: str) -> StorageLocation:
        """As `parse_permitted`, for the location of a namespace: there must be room for the name of any table below it."""
        location = self.parse_permitted(text)
        root = self.root_of(location)
        assert root is not None, "a permitted location has a root"
        if len("/".join(location.relative_segments(root)).encode()) > NAMESPACE_LOCATION_BYTES_MAX:
            raise invalid_location_error(
                "location", f"longer than {NAMESPACE_LOCATION_BYTES_MAX} bytes below the base or allowed location", text
            )
        return location

    def parse_permitted(self, text: str, *, percent_allowed: bool = False, field: str = "location") -> StorageLocation:
        """Parses `text` as a location of this warehouse: strictly below its base, or at or below an allowed location.

        The rules for characters apply to the path below; `percent_allowed` permits `%` in it. Raises BadRequest, naming `field`.
        """
        location = StorageLocation.parse_structure(text, field=field)
        root = self.root_of(location)
        if root is None:
            raise invalid_location_error(field, f"must be below {self.base} or one of the warehouse's allowed-locations", text)
        self.check_scheme(location, field)
        check_characters(location.relative_segments(root), text, percent_allowed=percent_allowed, field=field)
        return location

    def root_of(self, location: StorageLocation) -> StorageLocation | None:
        """The base or allowed location that contains `location`; the innermost if there are several."""
        innermost = self.base if self.base.contains(location) and location != self.base else None
        for root in self.allowed:
            if root.contains(location) and (innermost is None or len(root.segments) > len(innermost.segments)):
                innermost = root
        return innermost

    def check_scheme(self, location: StorageLocation, field: str) -> None:
        """Raises BadRequest if the profile does not let clients use the location's scheme."""

    @cached_property
    def _compared(self) -> tuple[str, dict[str, Any]]:
        """The type first, because it is cheap to compare. Cached, because every load of a table looks up its store by the profile."""
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

    type: Literal["local"]
    directory: Text

    kind = "file"
    missing_file_check = True

    @field_validator("directory")
    @classmethod
    def _check_directory(cls, directory: str) -> str:
        if not directory.startswith("/") or not directory.strip("/"):
            raise ValueError("must be an absolute path, not the root")
        return directory.removesuffix("/")

    @cached_property
    def base(self) -> StorageLocation:
        return StorageLocation.parse_base(f"file://{self.directory}", field="storage-profile: directory")

    @property
    def storage_identity(self) -> str:
        return "local"
