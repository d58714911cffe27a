"""Errors: HTTP status, Iceberg type, and whether they may be stored and repeated."""

import pytest

from icecore.domain import errors
from icecore.domain.errors import CatalogError, FilesMissing, FilesUnreadable, Forbidden, MissingCredential, StoreCheckFailed

# Java: RESTCatalogAdapter.EXCEPTION_ERROR_CODES and the types of ErrorHandlers. The others are the spec's examples, and those of approval,
# whose types no client knows.
STATUSES = {
    "BadRequestException": 400,
    "ChangeInvalidException": 400,
    "IllegalArgumentException": 400,
    "ValidationException": 400,
    "NotAuthorizedException": 401,
    "GetMyUserWithoutToken": 401,
    "ForbiddenException": 403,
    "ChangeForbiddenException": 403,
    "ApprovalRequiredException": 403,
    "NoSuchProjectException": 404,
    "NoSuchWarehouseException": 404,
    "NoSuchNamespaceException": 404,
    "NoSuchTableException": 404,
    "NoSuchViewException": 404,
    "NoSuchProposalException": 404,
    "NotFoundException": 404,
    "UserNotFound": 404,
    "MethodNotAllowedException": 405,
    "UnsupportedOperationException": 406,
    "AlreadyExistsException": 409,
    "NamespaceNotEmptyException": 409,
    "CreateWarehouseStorageProfileOverlap": 400,
    "ReservedNamespace": 400,
    "MissingCredentialError": 400,
    "UpdateError": 400,
    "WarehouseNotEmptyException": 409,
    "ProjectNotEmptyException": 409,
    "CatalogAlreadyBootstrapped": 400,
    "TermsOfUseNotAccepted": 400,
    "WarehouseProtectedException": 409,
    "NamespaceProtectedException": 409,
    "TableProtectedException": 409,
    "ViewProtectedException": 409,
    "TabularExpiredException": 409,
    "NoSuchTaskException": 404,
    "TaskFinishedException": 409,
    "ExpirationFixedException": 409,
    "PurgeBegunException": 409,
    "QueueNotFound": 400,
    "InvalidQueueConfig": 400,
    "NamespaceExpiredException": 409,
    "NamespaceSoftDeletedException": 409,
    "FilesMissingException": 409,
    "FilesUnreadableException": 409,
    "CommitFailedException": 409,
    "SummaryOutOfOrderException": 409,
    "ChangeRefusedException": 409,
    "ChangeHeldException": 409,
    "ProposalClosedException": 409,
    "PayloadTooLargeException": 413,
    "StoreCheckFailedException": 400,
    "NamespaceTreeTooLargeException": 400,
    "UnprocessableEntityException": 422,
    "TooManyRequestsException": 429,
    "InternalServerError": 500,
    "CommitStateUnknownException": 500,
    "ApprovalUnavailableException": 503,
    "MaintenanceModeError": 503,
    "ServiceUnavailableException": 503,
}

REFUSALS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, CatalogError) and one is not CatalogError]


def test_every_refusal_has_the_status_of_the_reference() -> None:
    """The complete table, with each type once; an inactive warehouse has that of one that does not exist, as in Lakekeeper."""
    assert errors.WarehouseInactive.type == errors.NoSuchWarehouse.type
    assert len(REFUSALS) - 1 == len({refusal.type for refusal in REFUSALS})
    assert STATUSES == {refusal.type: refusal.status for refusal in REFUSALS}


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
def test_only_what_would_be_refused_again_is_deterministic(refusal: type[CatalogError]) -> None:
    """Missing permission, what an operator may permit, an inactive warehouse, a full queue, a failed store, missing files and internal
    errors are not stored.
    """
    assert refusal.deterministic is (
        refusal.status not in (401, 429, 500, 503)
        and refusal not in (Forbidden, MissingCredential, StoreCheckFailed, FilesMissing, FilesUnreadable, errors.WarehouseInactive)
    )


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
def test_a_refusal_says_its_message(refusal: type[CatalogError]) -> None:
    """The given message, or the docstring of the class. It is never empty."""
    assert "Table does not exist: ns.t" == refusal("Table does not exist: ns.t").message
    if refusal is not errors.ServiceUnavailable:
        assert refusal.__doc__ == refusal().message


def test_a_long_message_is_cut_and_stays_as_it_is() -> None:
    """It may contain text of the request. A refusal repeated for its Idempotency-Key has the same text."""
    message = errors.NoSuchTable("Table does not exist: " + "ä" * 1_000_000).message
    assert (errors.MESSAGE_LENGTH_MAX, "ää…") == (len(message), message[-3:])
    assert message == CatalogError.from_record(404, "NoSuchTableException", message).message
    assert "x" * errors.MESSAGE_LENGTH_MAX == errors.NoSuchTable("x" * errors.MESSAGE_LENGTH_MAX).message


def test_unavailable_says_when_to_come_back() -> None:
    """Retry-After is sent only if the error has it."""
    assert errors.ServiceUnavailable("the log is away").retry_after_seconds is None
    assert 5 == errors.ServiceUnavailable("the log is away", retry_after_seconds=5).retry_after_seconds
