"""Every refusal, one class each, with the HTTP status and the Iceberg exception name the edge answers with.

The names are those of the Java reference (RESTCatalogAdapter.EXCEPTION_ERROR_CODES, ErrorHandlers), because clients
choose their exception by them.
"""

import builtins
from typing import ClassVar
from uuid import UUID

MESSAGE_LENGTH_MAX = 4_000
"""Of a refusal: twice the reason that an approval hook may give."""


class CatalogError(Exception):
    """A refusal that a client is told of.

    status -- HTTP status code.
    type   -- the Iceberg `ErrorModel.type`.
    deterministic -- the same request on the same state is refused again, so that a refusal may be recorded under an
    Idempotency-Key and replayed.
    """

    status: ClassVar[int] = 500
    type: ClassVar[str] = "InternalServerError"
    deterministic: ClassVar[bool] = False

    _by_answer: ClassVar[dict[tuple[int, str], "builtins.type[CatalogError]"]] = {}

    def __init_subclass__(cls, *, status: int, type: str, deterministic: bool | None = None) -> None:  # noqa: A002 - the spec's own word
        super().__init_subclass__()
        cls.status, cls.type = status, type
        cls.deterministic = 400 <= status < 500 and status not in (401, 419, 429) if deterministic is None else deterministic
        CatalogError._by_answer.setdefault((status, type), cls)

    @classmethod
    def remembered(cls, status: int, type: str, message: str) -> "CatalogError":  # noqa: A002 - the spec's own word
        """The refusal that was answered with this status, type and message."""
        return cls._by_answer[status, type](message)

    @property
    def message(self) -> str:
        """What is told, also under an Idempotency-Key: no more than MESSAGE_LENGTH_MAX, as it may repeat what was sent."""
        message = str(self.args[0]) if self.args else (self.__doc__ or type(self).__name__)
        return message if len(message) <= MESSAGE_LENGTH_MAX else f"{message[: MESSAGE_LENGTH_MAX - 1]}…"


class BadRequest(CatalogError, status=400, type="BadRequestException"):
    """The request cannot be read: a field is missing, of the wrong type or outside its bounds."""


class IllegalArgument(CatalogError, status=400, type="IllegalArgumentException"):
    """Java's IllegalArgumentException: an argument breaks a rule of the table or view format."""


class ValidationFailed(CatalogError, status=400, type="ValidationException"):
    """Java's ValidationException: the metadata would not be valid."""


class NotAuthorized(CatalogError, status=401, type="NotAuthorizedException"):
    """The caller is not known."""


class Forbidden(CatalogError, status=403, type="ForbiddenException", deterministic=False):
    """The caller may not do this; it may be permitted later."""


class NoSuchProject(CatalogError, status=404, type="NoSuchProjectException"):
    """There is one project only, so far."""


class NoSuchWarehouse(CatalogError, status=404, type="NoSuchWarehouseException"):
    """The warehouse does not exist."""


class NoSuchNamespace(CatalogError, status=404, type="NoSuchNamespaceException"):
    """The namespace does not exist."""


class NoSuchTable(CatalogError, status=404, type="NoSuchTableException"):
    """The table does not exist."""


class NoSuchView(CatalogError, status=404, type="NoSuchViewException"):
    """The view does not exist."""


class NoSuchProposal(CatalogError, status=404, type="NoSuchProposalException"):
    """The proposal does not exist."""


class NotFound(CatalogError, status=404, type="NotFoundException"):
    """A file or an address is not there."""


class MethodNotAllowed(CatalogError, status=405, type="MethodNotAllowedException"):
    """The address exists, the method does not."""


class UnsupportedOperation(CatalogError, status=406, type="UnsupportedOperationException"):
    """The operation is not served here (a past is read only, for one)."""


class AlreadyExists(CatalogError, status=409, type="AlreadyExistsException"):
    """The name is taken; nothing else, because clients that ask for `IF NOT EXISTS` take it for success."""


class NamespaceNotEmpty(CatalogError, status=409, type="NamespaceNotEmptyException"):
    """The namespace still holds tables, views or namespaces."""


class CommitFailed(CatalogError, status=409, type="CommitFailedException"):
    """A requirement does not hold, or another commit came first; the client may refresh and try again."""


class ChangeRefused(CatalogError, status=409, type="ChangeRefusedException"):
    """An approval hook refuses the change: the same change is refused again. Engines take a 409 for a conflict, and try again."""


class ChangeForbidden(ChangeRefused, status=403, type="ChangeForbiddenException"):
    """The same under the status that engines take for final."""


class ChangeInvalid(ChangeRefused, status=400, type="ChangeInvalidException"):
    """An approval hook refuses what the request says, whatever there is: a 409 of a create is taken for a name in use."""


class ChangeHeld(CatalogError, status=409, type="ChangeHeldException"):
    """An approval hook held the change back: it waits as a proposal for somebody's approval.

    proposal_id -- sent as Icecore-Proposal.
    """

    proposal_id: UUID | None = None


class ApprovalRequired(ChangeHeld, status=403, type="ApprovalRequiredException"):
    """The same under the status that engines take for final."""


class ProposalClosed(CatalogError, status=409, type="ProposalClosedException"):
    """The proposal is approved, rejected or expired: nothing can be decided about it any more."""


class PayloadTooLarge(CatalogError, status=413, type="PayloadTooLargeException"):
    """The body is over the limit."""


class UnprocessableEntity(CatalogError, status=422, type="UnprocessableEntityException"):
    """The request is well formed and cannot be meant: a key both set and removed, an Idempotency-Key used before with another body."""


class TooManyRequests(CatalogError, status=429, type="TooManyRequestsException"):
    """A bounded queue stayed full for the named time."""


class InternalError(CatalogError, status=500, type="InternalServerError"):
    """Internal error; the server's log describes it under the request id"""


class CommitStateUnknown(CatalogError, status=500, type="CommitStateUnknownException"):
    """The commit may have happened or not: the client must look before it cleans up."""


class ApprovalUnavailable(CatalogError, status=503, type="ApprovalUnavailableException"):
    """An approval hook gave no verdict, and its policy is to refuse then; nothing was done."""

    retry_after_seconds = 1


class ServiceUnavailable(CatalogError, status=503, type="ServiceUnavailableException"):
    """The log or an object store is away, and nothing was done.

    retry_after_seconds -- sent as Retry-After: only where the append surely was not sent, because Java resends such POSTs.
    """

    def __init__(self, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
