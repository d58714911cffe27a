"""Warehouses: decides their commands, which cannot wait for approval, and folds their events."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, NameClaim
from .documents import Json
from .errors import AlreadyExists, BadRequest, WarehouseNotEmpty, WarehouseProtected
from .events import (
    Event,
    WarehouseActivated,
    WarehouseConfigChanged,
    WarehouseCreated,
    WarehouseDeactivated,
    WarehouseDeleted,
    WarehouseDeleteProfileChanged,
    WarehouseFormatVersionPolicyChanged,
    WarehouseNamespaceMoved,
    WarehouseProtectionChanged,
    WarehousePurgeDefaultChanged,
    WarehouseReadOnlyChanged,
    WarehouseRenamed,
    WarehouseStorageCredentialChanged,
    WarehouseStorageProfileChanged,
    WarehouseTaskQueueConfigChanged,
)
from .format_versions import FORMAT_VERSION_DEFAULT, FORMAT_VERSIONS
from .identifiers import name_key, parse_name
from .task import PURGE, check_queue_config
from .warehouse_config import WarehouseConfig, changed_config

EXPIRATION_SECONDS_MAX = 100 * 365 * 24 * 3600
"""The longest time for which dropped tables and views are kept. A longer one is more likely in another unit."""

Status = Literal["active", "inactive", "deleted"]

_NAME_CHARACTERS_REFUSED = "@/"  # `@` precedes a point in time, `/` separates levels of a path.


@dataclass(frozen=True, slots=True)
class FormatVersionPolicy:
    """The format versions that tables of a warehouse may be created with or upgraded to, and that of a table whose request names none."""

    allowed: Sequence[int] = FORMAT_VERSIONS
    default: int | None = None

    def check(self, version: int) -> None:
        """Raises BadRequest if the version is not allowed."""
        if version not in self.allowed:
            allowed = ", ".join(map(str, self.allowed))
            raise BadRequest(f"The warehouse does not allow tables of format version {version}; it allows {allowed}")

    @property
    def of_new_tables(self) -> int:
        """As Lakekeeper: without a default 2 if it is allowed, else the highest."""
        if self.default is not None:
            return self.default
        return FORMAT_VERSION_DEFAULT if FORMAT_VERSION_DEFAULT in self.allowed else max(self.allowed)


@dataclass(frozen=True, slots=True)
class DeleteProfile:
    """What a drop of a table or view does. expiration_seconds -- how long it can be undropped; None: the drop is final at once."""

    expiration_seconds: int | None = None

    def expires_at_ms(self, now_ms: int) -> int | None:
        """When the drop of something that is dropped now becomes final; None: at once."""
        return None if self.expiration_seconds is None else now_ms + self.expiration_seconds * 1000

    def to_json(self) -> Json:
        """As Lakekeeper's TabularDeleteProfile."""
        if self.expiration_seconds is None:
            return {"type": "hard"}
        return {"type": "soft", "expiration-seconds": self.expiration_seconds}


@dataclass(frozen=True, slots=True)
class RenameWarehouse:
    name: str


@dataclass(frozen=True, slots=True)
class SetWarehouseStatus:
    """active -- False: to clients the warehouse does not exist."""

    active: bool


@dataclass(frozen=True, slots=True)
class SetWarehouseProtection:
    protected: bool


@dataclass(frozen=True, slots=True)
class SetWarehouseReadOnly:
    """read_only -- True: changes in the warehouse are refused, its files are not deleted, and reads go on."""

    read_only: bool


@dataclass(frozen=True, slots=True)
class UpdateWarehouseFormatVersionPolicy:
    policy: FormatVersionPolicy


@dataclass(frozen=True, slots=True)
class UpdateWarehouseDeleteProfile:
    """Concerns later drops; the expiry of what was dropped before does not change."""

    profile: DeleteProfile


@dataclass(frozen=True, slots=True)
class SetWarehousePurgeDefault:
    """purge -- a drop of a table that does not say whether its files are to be deleted requests it."""

    purge: bool


@dataclass(frozen=True, slots=True)
class SetTaskQueueConfig:
    """heartbeat_seconds_max -- an attempt of a purge without a heartbeat for longer is ended and retried; None: the default."""

    queue: str
    heartbeat_seconds_max: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteWarehouse:
    """force -- also if the warehouse is protected."""

    force: bool = False


WarehouseChange = (
    SetWarehouseStatus
    | SetWarehouseProtection
    | SetWarehouseReadOnly
    | UpdateWarehouseFormatVersionPolicy
    | UpdateWarehouseDeleteProfile
    | SetWarehousePurgeDefault
    | SetTaskQueueConfig
)
"""The commands that are decided on the warehouse's state alone."""


@dataclass(frozen=True, slots=True)
class WarehouseState:
    id: UUID
    version: int
    event_id: UUID
    project_id: UUID
    name: str
    name_key: str
    storage_profile: Json
    secret_ref: UUID | None
    exact_names: bool
    config: WarehouseConfig = field(default_factory=WarehouseConfig)
    status: Status = "active"
    protected: bool = False
    format_versions: FormatVersionPolicy = field(default_factory=FormatVersionPolicy)
    read_only: bool = False
    delete_profile: DeleteProfile = field(default_factory=DeleteProfile)
    purge_default: bool = False
    purge_heartbeat_seconds_max: int | None = None


def decide_create(name: str, storage_profile: Json, *, exact_names: bool, taken: bool) -> WarehouseCreated:
    """A new warehouse without a credential. Raises BadRequest for an invalid name or one with `@` or `/`.

    taken -- the project has a warehouse with that name: AlreadyExists.
    """
    _check_name(name, taken=taken)
    return WarehouseCreated(name, name_key(name), storage_profile, None, exact_names)


def decide_policies(policy: FormatVersionPolicy, profile: DeleteProfile, *, purge_default: bool) -> list[Event]:
    """The events after the creation of a warehouse with this checked policy and profile."""
    events: list[Event] = []
    if policy != FormatVersionPolicy():
        events.append(WarehouseFormatVersionPolicyChanged([*policy.allowed], policy.default))
    if profile != DeleteProfile():
        events.append(_delete_profile_changed(profile))
    if purge_default:
        events.append(WarehousePurgeDefaultChanged(True))
    return events


def decide_rename(state: WarehouseState, command: RenameWarehouse, *, taken: bool) -> WarehouseRenamed | None:
    """None if it has the name already. Raises as decide_create. taken -- another warehouse of the project has the name."""
    _check_name(command.name, taken=taken)
    return None if command.name == state.name else WarehouseRenamed(command.name, name_key(command.name))


def decide_delete(
    state: WarehouseState, command: DeleteWarehouse, content: str | None, soft_deleted: Sequence[str] = ()
) -> WarehouseDeleted:
    """Raises WarehouseProtected, and WarehouseNotEmpty if it has content, also if all of it is soft-deleted.

    content -- the kind of an object in it; None: there is none. soft_deleted -- some of the soft-deleted objects in it.
    """
    if state.protected and not command.force:
        raise WarehouseProtected(f"Warehouse is protected: {state.name}; remove the protection, or delete it with force")
    if content is not None or soft_deleted:
        contained = [] if content is None else [f"a {content}"]
        if soft_deleted:
            contained.append(f"soft-deleted: {'; '.join(soft_deleted)}")
        raise WarehouseNotEmpty(f"Warehouse is not empty: {state.name}; it contains {', and '.join(contained)}")
    return WarehouseDeleted()


def decide_change(state: WarehouseState, command: WarehouseChange) -> Event | None:
    """The event of a command that depends on the state alone; None if nothing changes. Raises BadRequest for a value out of bounds."""
    match command:
        case SetWarehouseStatus(active):
            if active == (state.status == "active"):
                return None
            return WarehouseActivated() if active else WarehouseDeactivated()
        case SetWarehouseProtection(protected):
            return None if protected == state.protected else WarehouseProtectionChanged(protected)
        case SetWarehouseReadOnly(read_only):
            return None if read_only == state.read_only else WarehouseReadOnlyChanged(read_only)
        case UpdateWarehouseFormatVersionPolicy(policy):
            policy = checked_policy(policy)
            return None if policy == state.format_versions else WarehouseFormatVersionPolicyChanged([*policy.allowed], policy.default)
        case UpdateWarehouseDeleteProfile(profile):
            profile = checked_delete_profile(profile)
            return None if profile == state.delete_profile else _delete_profile_changed(profile)
        case SetWarehousePurgeDefault(purge):
            return None if purge == state.purge_default else WarehousePurgeDefaultChanged(purge)
        case SetTaskQueueConfig(queue, seconds):
            check_queue_config(queue, seconds)
            unchanged = queue != PURGE or seconds == state.purge_heartbeat_seconds_max
            return None if unchanged else WarehouseTaskQueueConfigChanged(queue, seconds)


def decide_namespace_moved(namespace_id: UUID) -> WarehouseNamespaceMoved:
    """The event of the warehouse in which a namespace is moved by the same command."""
    return WarehouseNamespaceMoved(namespace_id)


def _delete_profile_changed(profile: DeleteProfile) -> WarehouseDeleteProfileChanged:
    soft = profile.expiration_seconds is not None
    return WarehouseDeleteProfileChanged("soft" if soft else "hard", profile.expiration_seconds)


def checked_delete_profile(profile: DeleteProfile) -> DeleteProfile:
    """Raises BadRequest for a time of less than a second, or longer than EXPIRATION_SECONDS_MAX."""
    if profile.expiration_seconds is not None and not 1 <= profile.expiration_seconds <= EXPIRATION_SECONDS_MAX:
        raise BadRequest(f"Invalid delete-profile: expiration-seconds must be between 1 and {EXPIRATION_SECONDS_MAX}")
    return profile


def decide_storage(
    state: WarehouseState, storage_profile: Json, secret_ref: UUID | None
) -> WarehouseStorageProfileChanged | WarehouseStorageCredentialChanged | None:
    """None if nothing changes. The caller has checked that the profile may replace the warehouse's, and has stored the credential."""
    if storage_profile != state.storage_profile:
        return WarehouseStorageProfileChanged(storage_profile, secret_ref)
    return None if secret_ref == state.secret_ref else WarehouseStorageCredentialChanged(secret_ref)


def checked_policy(policy: FormatVersionPolicy) -> FormatVersionPolicy:
    """The policy with each version once, in order. Raises BadRequest unless it allows a version, and its default."""
    allowed = tuple(sorted(set(policy.allowed)))
    if not allowed or not set(allowed) <= set(FORMAT_VERSIONS):
        raise BadRequest(f"Invalid allowed-format-versions: must be one or more of {', '.join(map(str, FORMAT_VERSIONS))}")
    if policy.default is not None and policy.default not in allowed:
        raise BadRequest("Invalid default-format-version: must be one of allowed-format-versions")
    return FormatVersionPolicy(allowed, policy.default)


def _check_name(name: str, *, taken: bool) -> None:
    parse_name(name, "warehouse name")
    for character in _NAME_CHARACTERS_REFUSED:
        if character in name:
            raise BadRequest(f"Invalid warehouse name: must not contain '{character}'")
    if taken:
        raise AlreadyExists(f"Warehouse already exists: {name}")


def evolve(state: WarehouseState | None, stream_id: UUID, version: int, event_id: UUID, project_id: UUID, event: Event) -> WarehouseState:
    match event:
        case WarehouseCreated():
            return WarehouseState(
                stream_id,
                version,
                event_id,
                project_id,
                event.name,
                event.name_key,
                event.storage_profile,
                event.secret_ref,
                event.exact_names,
            )
    if state is None:
        raise AssertionError(f"{type(event).__name__} is not the first event of a warehouse")
    state = replace(state, version=version, event_id=event_id)
    match event:
        case WarehouseConfigChanged():
            return replace(state, config=changed_config(state.config, event))
        case WarehouseRenamed():
            return replace(state, name=event.name, name_key=event.name_key)
        case WarehouseActivated():
            return replace(state, status="active")
        case WarehouseDeactivated():
            return replace(state, status="inactive")
        case WarehouseProtectionChanged():
            return replace(state, protected=event.protected)
        case WarehouseFormatVersionPolicyChanged():
            return replace(state, format_versions=FormatVersionPolicy(tuple(event.allowed), event.default))
        case WarehouseReadOnlyChanged():
            return replace(state, read_only=event.read_only)
        case WarehouseStorageProfileChanged():
            return replace(state, storage_profile=event.storage_profile, secret_ref=event.secret_ref)
        case WarehouseStorageCredentialChanged():
            return replace(state, secret_ref=event.secret_ref)
        case WarehouseDeleteProfileChanged():
            return replace(state, delete_profile=DeleteProfile(event.expiration_seconds))
        case WarehousePurgeDefaultChanged():
            return replace(state, purge_default=event.purge)
        case WarehouseNamespaceMoved():
            return state
        case WarehouseTaskQueueConfigChanged():
            return replace(state, purge_heartbeat_seconds_max=event.heartbeat_seconds_max)
        case WarehouseDeleted():
            return replace(state, status="deleted")
    raise AssertionError(f"{type(event).__name__} is not an event of a warehouse")


def claims(state: WarehouseState) -> frozenset[Claim]:
    """Its name, until it is deleted."""
    if state.status == "deleted":
        return frozenset()
    return frozenset({NameClaim("warehouse", state.project_id, state.name_key, state.id)})
