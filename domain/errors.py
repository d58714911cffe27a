"""Errors for clients: one class for each, with its HTTP status and Iceberg exception type.

The types are those of the Java reference (RESTCatalogAdapter.EXCEPTION_ERROR_CODES, ErrorHandlers), because clients choose
their exception by them. Without a message of its own, an error's docstring is its message.
"""

import builtins
from typing import ClassVar
from uuid import UUID

MESSAGE_LENGTH_MAX = 4_000
"""Longest message, in characters: twice the longest reason of an approval hook."""


class CatalogError(Exception):
    """An error that is sent to the client.

    status -- HTTP status code.
    type   -- the Iceberg `ErrorModel.type`.
    deterministic -- the same request on the same state is refused again, so the error can be stored under an Idempotency-Key
    and replayed.
    """

    status: ClassVar[int] = 500
    type: ClassVar[str] = "InternalServerError"
    deterministic: ClassVar[bool] = False

    _by_status_and_type: ClassVar[dict[tuple[int, str], "builtins.type[CatalogError]"]] = {}

    def __init_subclass__(cls, *, status: int, type: str, deterministic: bool | None = None) -> None:  # noqa: A002 - the spec's own word
        super().__init_subclass__()
        cls.status, cls.type = status, type
        cls.deterministic = 400 <= status < 500 and status not in (401, 419, 429) if deterministic is None else deterministic
        CatalogError._by_status_and_type.setdefault((status, type), cls)

    @classmethod
    def from_record(cls, status: int, type: str, message: str) -> "CatalogError":  # noqa: A002 - the spec's own word
        """The error that was sent with this status, type and message."""
        return cls._by_status_and_type[status, type](message)

    @property
    def message(self) -> str:
        """The message for the client, cut at MESSAGE_LENGTH_MAX because it may repeat text of the request."""
        message = str(self.args[0]) if self.args else (self.__doc__ or type(self).__name__)
        return message if len(message) <= MESSAGE_LENGTH_MAX else f"{message[: MESSAGE_LENGTH_MAX - 1]}…"


class BadRequest(CatalogError, status=400, type="BadRequestException"):
    """The request is invalid: a field is missing, has the wrong type or is out of bounds."""


class ReservedNamespace(BadRequest, status=400, type="ReservedNamespace"):
    """The operator reserves the name of the namespace (Lakekeeper's type)."""


class QueueNotFound(BadRequest, status=400, type="QueueNotFound"):
    """There is no such queue of tasks."""


class InvalidQueueConfig(BadRequest, status=400, type="InvalidQueueConfig"):
    """The queue has no such setting, or its value is out of bounds."""


class MissingCredential(BadRequest, status=400, type="MissingCredentialError", deterministic=False):
    """The store of a warehouse needs a storage-credential (Lakekeeper's type). An operator may permit one without."""


class StoreCheckFailed(CatalogError, status=400, type="StoreCheckFailedException", deterministic=False):
    """Engines could not use the store of the warehouse. The same request may succeed once the store is repaired."""


class StorageProfileOverlap(BadRequest, status=400, type="CreateWarehouseStorageProfileOverlap"):
    """The storage profile overlaps the location of another warehouse (Lakekeeper's type, also for a change of the profile)."""


class IncompatibleStorageProfile(BadRequest, status=400, type="UpdateError"):
    """A storage profile with which files of the warehouse would not be found any more (Lakekeeper's UpdateError)."""


class IllegalArgument(CatalogError, status=400, type="IllegalArgumentException"):
    """An argument breaks a rule of the table or view format (Java's IllegalArgumentException)."""


class ValidationFailed(CatalogError, status=400, type="ValidationException"):
    """The metadata would be invalid (Java's ValidationException)."""


class AlreadyBootstrapped(CatalogError, status=400, type="CatalogAlreadyBootstrapped"):
    """The server is bootstrapped already: without authentication nothing needs bootstrapping."""


class TermsNotAccepted(CatalogError, status=400, type="TermsOfUseNotAccepted"):
    """The terms of use must be accepted (accept-terms-of-use)."""


class NotAuthorized(CatalogError, status=401, type="NotAuthorizedException"):
    """The caller is not authenticated."""


class NoUserWithoutToken(CatalogError, status=401, type="GetMyUserWithoutToken"):
    """The request has no user: it is anonymous."""


class NoSuchUser(CatalogError, status=404, type="UserNotFound"):
    """The user does not exist."""


class Forbidden(CatalogError, status=403, type="ForbiddenException", deterministic=False):
    """The caller is not permitted to do this."""


class NoSuchProject(CatalogError, status=404, type="NoSuchProjectException"):
    """The project does not exist."""


class NoSuchWarehouse(CatalogError, status=404, type="NoSuchWarehouseException"):
    """The warehouse does not exist."""


class WarehouseInactive(NoSuchWarehouse, status=404, type="NoSuchWarehouseException", deterministic=False):
    """The warehouse is inactive (Lakekeeper's response). Nothing was changed."""


class NoSuchNamespace(CatalogError, status=404, type="NoSuchNamespaceException"):
    """The namespace does not exist."""


class NoSuchTable(CatalogError, status=404, type="NoSuchTableException"):
    """The table does not exist."""


class NoSuchView(CatalogError, status=404, type="NoSuchViewException"):
    """The view does not exist."""


class NoSuchProposal(CatalogError, status=404, type="NoSuchProposalException"):
    """The proposal does not exist."""


class NoSuchTask(CatalogError, status=404, type="NoSuchTaskException"):
    """The task does not exist in the warehouse or project."""


class NotFound(CatalogError, status=404, type="NotFoundException"):
    """A file or address does not exist."""


class MethodNotAllowed(CatalogError, status=405, type="MethodNotAllowedException"):
    """The address does not support this method."""


class UnsupportedOperation(CatalogError, status=406, type="UnsupportedOperationException"):
    """The operation is not supported, for example a write to a past state."""


class AlreadyExists(CatalogError, status=409, type="AlreadyExistsException"):
    """The name is taken. Use it for nothing else: with `IF NOT EXISTS`, clients read it as success."""


class NamespaceNotEmpty(CatalogError, status=409, type="NamespaceNotEmptyException"):
    """The namespace contains tables, views or namespaces."""


class WarehouseNotEmpty(CatalogError, status=409, type="WarehouseNotEmptyException"):
    """The warehouse contains objects."""


class WarehouseProtected(CatalogError, status=409, type="WarehouseProtectedException"):
    """The warehouse is protected from deletion."""


class ProjectNotEmpty(CatalogError, status=409, type="ProjectNotEmptyException"):
    """The project contains warehouses."""


class NamespaceProtected(CatalogError, status=409, type="NamespaceProtectedException"):
    """The namespace is protected from being dropped."""


class NamespaceTreeTooLarge(CatalogError, status=400, type="NamespaceTreeTooLargeException"):
    """The namespace contains more objects than a single command can drop."""


class NamespaceSoftDeleted(CatalogError, status=409, type="NamespaceSoftDeletedException"):
    """What is to be undropped is in a soft-deleted namespace. The message names the namespace to undrop."""


class NamespaceDropExpired(CatalogError, status=409, type="NamespaceExpiredException"):
    """The drop of the namespace, or of something that was dropped with it, is final. It cannot be undropped."""


class TableProtected(CatalogError, status=409, type="TableProtectedException"):
    """The table is protected from being dropped."""


class ViewProtected(CatalogError, status=409, type="ViewProtectedException"):
    """The view is protected from being dropped."""


class TabularExpired(CatalogError, status=409, type="TabularExpiredException"):
    """The drop of the table or view is final. It cannot be undropped."""


class TaskFinished(CatalogError, status=409, type="TaskFinishedException"):
    """The task has ended."""


class ExpirationFixed(CatalogError, status=409, type="ExpirationFixedException"):
    """The moment of an expiry was fixed at the drop; only an undrop stops it."""


class PurgeBegun(CatalogError, status=409, type="PurgeBegunException"):
    """The purge has begun to delete files and cannot be cancelled."""


class FilesMissing(CatalogError, status=409, type="FilesMissingException", deterministic=False):
    """Files without which the dropped table or view cannot be read are missing. The same request may succeed once they are back."""


class FilesUnreadable(CatalogError, status=409, type="FilesUnreadableException", deterministic=False):
    """Manifests of the dropped table are damaged, or too large to be read. The same request may succeed once they are replaced."""


class CommitFailed(CatalogError, status=409, type="CommitFailedException"):
    """A requirement failed, or another commit came first. The client can refresh and retry."""


class SummaryOutOfOrder(CatalogError, status=409, type="SummaryOutOfOrderException"):
    """The value that must increase in the summaries of a table's snapshots does not (domain/metadata/increasing_summary.py)."""


class ChangeRefused(CatalogError, status=409, type="ChangeRefusedException"):
    """An approval hook refused the change. Engines read the 409 as a conflict and retry."""


class ChangeForbidden(ChangeRefused, status=403, type="ChangeForbiddenException"):
    """An approval hook refused the change, with a status that engines treat as final."""


class ChangeInvalid(ChangeRefused, status=400, type="ChangeInvalidException"):
    """An approval hook refused the request as invalid. A 409 would be read as a name in use."""


class ChangeHeld(CatalogError, status=409, type="ChangeHeldException"):
    """An approval hook held the change, which waits as a proposal for approval.

    proposal_id -- sent in the header Icecore-Proposal.
    """

    proposal_id: UUID | None = None


class ApprovalRequired(ChangeHeld, status=403, type="ApprovalRequiredException"):
    """The change waits for approval, with a status that engines treat as final."""


class ProposalClosed(CatalogError, status=409, type="ProposalClosedException"):
    """The proposal was already approved, rejected or closed as expired or stale."""


class PayloadTooLarge(CatalogError, status=413, type="PayloadTooLargeException"):
    """The request body is larger than the limit."""


class UnprocessableEntity(CatalogError, status=422, type="UnprocessableEntityException"):
    """The request contradicts itself or an earlier one: a key in `updates` and `removals`, an Idempotency-Key used with another body."""


class TooManyRequests(CatalogError, status=429, type="TooManyRequestsException"):
    """A queue is full, or other requests use all the memory. The client can retry later."""


class InternalError(CatalogError, status=500, type="InternalServerError"):
    """Internal error; an operator finds the details in the server's log records, under the request id"""


class CommitStateUnknown(CatalogError, status=500, type="CommitStateUnknownException"):
    """The outcome of the commit is unknown. The client must load the table before it cleans up."""


class ApprovalUnavailable(CatalogError, status=503, type="ApprovalUnavailableException"):
    """An approval hook failed, and its policy is to refuse. Nothing was changed."""

    retry_after_seconds = 1


class WarehouseReadOnly(CatalogError, status=503, type="MaintenanceModeError"):
    """The warehouse is read-only (Lakekeeper's type). Nothing was changed. The client can retry after the maintenance."""

    retry_after_seconds = 60


class ServiceUnavailable(CatalogError, status=503, type="ServiceUnavailableException"):
    """Postgres or an object store is unreachable. Nothing was changed.

    retry_after_seconds -- sent as Retry-After, only if the change was certainly not appended, because Java resends such POSTs.
    """

    def __init__(self, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
