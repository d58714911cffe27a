"""Validation of a storage configuration: makes the checks of a creation or an update, reports each, and appends nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.documents import Json
from ...domain.errors import BadRequest, CatalogError, StoreCheckFailed
from ...domain.warehouse import checked_delete_profile, checked_policy, decide_create
from ...projections import warehouses
from ...storage.compatible_profiles import check_compatible
from ...storage.credentials import StorageCredential
from ...storage.permitted_profiles import PermittedProfiles
from ...storage.profiles import StorageProfile
from ...storage.store_checks import StoreCheck
from ..execution.executor import CommandExecutor
from .create_warehouse import CreateWarehouse
from .requested_storage import RequestedStorage, checked_profile, parsed_credential
from .shared_storage import read_sharing, refuse_shared_locations
from .update_storage import StorageUpdate, UpdateStorageProfile

_STORE = ("storage-client-initialized", "lakekeeper-read-write", "cleanup")
_VENDED = ("vended-credentials-issued", "vended-credentials-read-write", "vended-credentials-scope-enforced")
CHECKS = (
    "profile-well-formed",
    "profile-compatible",
    "warehouse-name-valid",
    "location-exclusive",
    "spec-mutable",
    "format-version-policy-consistent",
    "managed-by-allowed",
    *_STORE[:2],
    *_VENDED,
    _STORE[2],
)
"""Lakekeeper's names, in the order of a report."""

_OF_CREATIONS = "Only applies when creating a warehouse."
_OF_UPDATES = "Only applies when updating an existing warehouse."
_NO_CHANGE = "Nothing would change."
_PREREQUISITE = "Skipped, because a check before it failed."


class ValidationReport:
    """The outcome of each check: passed, failed or skipped."""

    def __init__(self) -> None:
        self._checks: dict[str, Json] = {}

    @contextmanager
    def check(self, name: str) -> Iterator[None]:
        """A block that passes the check, unless it raises a CatalogError, which is reported."""
        began = time.monotonic()
        try:
            yield
        except CatalogError as refusal:
            self.add(name, time.monotonic() - began, refusal)
        else:
            self.add(name, time.monotonic() - began)

    def add(self, name: str, seconds: float, failure: CatalogError | None = None) -> None:
        result: Json = {"name": name, "status": "passed" if failure is None else "failed", "duration-ms": round(seconds * 1000)}
        if failure is not None:
            result["error"] = {"message": failure.message, "type": failure.type, "code": failure.status}
        self._checks[name] = result

    def skip(self, reason: str, *names: str) -> None:
        for name in names:
            self._checks[name] = {"name": name, "status": "skipped", "reason": reason}

    def to_json(self) -> Json:
        """Lakekeeper's ValidateWarehouseResponse."""
        checks = [self._checks[name] for name in CHECKS]
        return {"valid": all(check["status"] != "failed" for check in checks), "checks": checks}


async def validate_creation(
    executor: CommandExecutor,
    context: RequestContext,
    command: CreateWarehouse,
    managed_by: str | None,
    permitted: PermittedProfiles | None,
) -> Json:
    """The report on a creation. Raises Forbidden before anything is contacted, if the profile is not permitted.

    managed_by -- who would manage the warehouse; None: its users.
    """
    await executor.authorize(context, [Resource("project", context.project_id)])
    report = ValidationReport()
    report.skip(_OF_UPDATES, "profile-compatible", "spec-mutable")
    storage = _well_formed(executor, report, command.storage_profile, command.storage_credential, permitted)
    if storage is not None:
        await storage.check_permitted(context.project_id)
    # Lakekeeper has no check of this.
    checked_delete_profile(command.delete_profile)
    with report.check("format-version-policy-consistent"):
        checked_policy(command.format_versions)
    with report.check("managed-by-allowed"):
        if managed_by not in (None, "self-managed"):
            raise BadRequest("Invalid managed-by: it must be self-managed, because instance administrators are not supported")
    with report.check("warehouse-name-valid"):
        async with executor.connection() as connection:
            taken = await warehouses.read_by_name(connection, context.project_id, command.name) is not None
        decide_create(command.name, {}, exact_names=command.exact_names, taken=taken)
    if storage is None:
        report.skip(_PREREQUISITE, "location-exclusive")
    else:
        await _check_locations(executor, report, storage.profile, context, None)
    await _check_store(executor, report, storage)
    return report.to_json()


async def validate_update(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: StorageUpdate, permitted: PermittedProfiles | None
) -> Json:
    """The report on a change of the storage profile or credential. Raises as validate_creation."""
    await executor.authorize(context, [Resource("warehouse", warehouse.id)])
    report = ValidationReport()
    report.skip(_OF_CREATIONS, "warehouse-name-valid", "format-version-policy-consistent", "managed-by-allowed")
    # A warehouse that another control plane manages is not supported.
    report.add("spec-mutable", 0.0)
    if isinstance(command, UpdateStorageProfile):
        storage = _well_formed(executor, report, command.storage_profile, command.storage_credential, permitted)
    else:
        storage = _well_formed(executor, report, warehouse.profile, command.storage_credential, permitted)
    if storage is not None:
        await storage.check_permitted(context.project_id)
    if not isinstance(command, UpdateStorageProfile):
        report.skip("The storage profile would stay.", "profile-compatible", "location-exclusive")
    elif storage is None:
        report.skip(_PREREQUISITE, "profile-compatible", "location-exclusive")
    else:
        with report.check("profile-compatible"):
            check_compatible(warehouse.profile, storage.profile)
        await _check_locations(executor, report, storage.profile, context, warehouse)
    await _check_store(executor, report, storage)
    return report.to_json()


async def validate_access(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse) -> Json:
    """The report on the storage that the warehouse has."""
    await executor.authorize(context, [Resource("warehouse", warehouse.id)])
    report = ValidationReport()
    report.skip(
        _NO_CHANGE,
        *("profile-compatible", "warehouse-name-valid", "location-exclusive", "spec-mutable"),
        *("format-version-policy-consistent", "managed-by-allowed"),
    )
    storage: RequestedStorage | None = None
    with report.check("profile-well-formed"):
        credential: StorageCredential | None = None
        if warehouse.secret_ref is not None:
            credential = await executor.backends.credential(warehouse.project_id, warehouse.secret_ref)
        storage = RequestedStorage.open(executor.backends, warehouse.profile, credential, None)
    await _check_store(executor, report, storage)
    return report.to_json()


def _well_formed(
    executor: CommandExecutor,
    report: ValidationReport,
    profile: Json | StorageProfile,
    credential: Json | None,
    permitted: PermittedProfiles | None,
) -> RequestedStorage | None:
    """The storage of a request; None if its profile and credential are invalid or cannot be used together. Contacts nothing."""
    storage: RequestedStorage | None = None
    with report.check("profile-well-formed"):
        parsed = parsed_credential(credential)
        checked = profile if isinstance(profile, StorageProfile) else checked_profile(profile, parsed)
        storage = RequestedStorage.open(executor.backends, checked, parsed, permitted)
    return storage  # noqa: RET504 - the check may suppress the error


async def _check_locations(
    executor: CommandExecutor, report: ValidationReport, profile: StorageProfile, context: RequestContext, changed: Warehouse | None
) -> None:
    """changed -- the warehouse whose profile is replaced, if there is one."""
    with report.check("location-exclusive"):
        async with executor.connection() as connection:
            others = await read_sharing(connection, profile)
        if changed is not None:
            others = [other for other in others if other.id != changed.id]
        await refuse_shared_locations(profile, others, context.project_id, None if changed is None else changed.profile)


async def _check_store(executor: CommandExecutor, report: ValidationReport, storage: RequestedStorage | None) -> None:
    """Writes, reads, lists and deletes an object."""
    report.skip("Icecore does not vend credentials yet.", *_VENDED)
    if storage is None:
        report.skip(_PREREQUISITE, *_STORE)
        return
    if executor.skip_storage_validation:
        report.skip("ICECORE_SKIP_STORAGE_VALIDATION is set.", *_STORE)
        return
    # The client was made with the profile and the credential. It contacts nothing.
    report.add("storage-client-initialized", 0.0)
    made: list[StoreCheck] = []
    failure: StoreCheckFailed | None = None
    try:
        await storage.check_store(executor, made.append)
    except StoreCheckFailed as failed:
        failure = failed
    deletion = made[-1] if made[-1].name == "delete" else None
    report.add("lakekeeper-read-write", sum(each.seconds for each in made if each is not deletion), failure if deletion is None else None)
    if deletion is None:
        report.skip(_PREREQUISITE, "cleanup")
    else:
        report.add("cleanup", deletion.seconds, failure)
