"""Transactions: commits to several tables, all or none (spec: /v1/{prefix}/transactions/commit)."""

from aiohttp import web

from ...commands.tables.commit_transaction import commit_transaction as execute_commit_transaction
from ...domain.commands import CommitTransaction
from ..api_request import ApiRequest
from .tables import parse_commit_table


async def commit_transaction(request: ApiRequest) -> web.Response:
    body, fields = await request.fields()
    limits = request.catalog.limits
    changes = tuple(
        parse_commit_table(change.identifier("identifier", "table name"), change, limits)
        for change in fields.each("table-changes", limits.table_changes_max)
    )
    if not changes:
        raise fields.invalid("table-changes", "must have at least one element")
    if sum(len(change.updates) for change in changes) > limits.updates_max:
        raise fields.invalid("table-changes", f"has more than {limits.updates_max} updates")
    return await request.execute(execute_commit_transaction, CommitTransaction(changes=changes), body=body)
