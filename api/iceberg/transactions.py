"""Transactions: commits to several tables, all or none (spec: /v1/{prefix}/transactions/commit)."""

from aiohttp import web

from ...commands.tables.commit_transaction import commit_transaction as execute_commit_transaction
from ...domain.commands import CommitTransaction
from ...domain.identifiers import TabularIdentifier
from ...domain.metadata.requirements import is_creation
from ..api_request import ApiRequest
from ..bodies import BodyReader
from ..limits import ApiLimits
from .tables import parse_commit_table


async def commit_transaction(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    limits = request.catalog.limits
    changes = tuple(
        parse_commit_table(_table(change, limits), change, limits) for change in fields.each("table-changes", limits.table_changes_max)
    )
    if not changes:
        raise fields.invalid_error("table-changes", "must have at least one element")
    if sum(len(change.updates) for change in changes) > limits.updates_max:
        raise fields.invalid_error("table-changes", f"has more than {limits.updates_max} updates")
    return await request.execute(execute_commit_transaction, CommitTransaction(changes=changes), body=body)


def _table(change: BodyReader, limits: ApiLimits) -> TabularIdentifier:
    """The table of a change, as of a commit to it alone: only a new one must have a valid name. Raises NoSuchTable."""
    if is_creation(change.objects("requirements", limits.requirements_max)):
        return change.identifier("identifier", "table name")
    return change.existing_identifier("identifier", "table")
