"""ApproveProposal: executes a held change on the current state."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...access.request_context import ApprovedProposal, RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import (
    CommitTable,
    CommitTransaction,
    CommitView,
    CreateNamespace,
    CreateTable,
    CreateView,
    DropNamespace,
    DropTable,
    DropView,
    MoveNamespace,
    RenameTable,
    RenameView,
    SetNamespaceProtection,
    SetTableProtection,
    SetViewProtection,
    UnregisterTable,
    UpdateNamespaceProperties,
)
from ...domain.errors import InternalError
from ...domain.proposal import ProposalState
from ...domain.stored_commands import UnreadableCommandError, decode
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..namespaces.create_namespace import create_namespace
from ..namespaces.drop_namespace import drop_namespace
from ..namespaces.move_namespace import move_namespace
from ..namespaces.update_namespace_properties import update_namespace_properties
from ..protection.set_protection import set_namespace_protection, set_table_protection, set_view_protection
from ..tables.commit_table import commit_table
from ..tables.commit_transaction import commit_transaction
from ..tables.create_table import create_table
from ..tables.drop_table import drop_table
from ..tables.rename_table import rename_table
from ..tables.unregister_table import unregister_table
from ..views.commit_view import commit_view
from ..views.create_view import create_view
from ..views.drop_view import drop_view
from ..views.rename_view import rename_view

Execute = Callable[[CommandExecutor, RequestContext, Warehouse, Any], Awaitable[CommandResponse]]


EXECUTED_BY: Mapping[type, Execute] = {
    CreateNamespace: create_namespace,
    UpdateNamespaceProperties: update_namespace_properties,
    SetNamespaceProtection: set_namespace_protection,
    MoveNamespace: move_namespace,
    DropNamespace: drop_namespace,
    CreateTable: create_table,
    CommitTable: commit_table,
    CommitTransaction: commit_transaction,
    SetTableProtection: set_table_protection,
    DropTable: drop_table,
    UnregisterTable: unregister_table,
    RenameTable: rename_table,
    CreateView: create_view,
    CommitView: commit_view,
    SetViewProtection: set_view_protection,
    DropView: drop_view,
    RenameView: rename_view,
}
"""The handler of each command that can wait."""


@dataclass(frozen=True, slots=True)
class ApproveProposal:
    """`proposal` -- the loaded proposal. stored_bytes -- its size as JSON."""

    proposal: ProposalState
    stored_bytes: int = 0


async def approve_proposal(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: ApproveProposal
) -> CommandResponse:
    """200 with the proposal, once its change and the approval are in the log under one command.

    Raises the refusal of the change on the current state, and ProposalClosed if the proposal is closed, expired or stale.
    """
    state = command.proposal
    try:
        change = decode(state.operation, state.command)
    except UnreadableCommandError as error:
        raise InternalError(f"The change of proposal {state.id} cannot be read: {error}") from None
    approving = replace(
        context, body_bytes=command.stored_bytes, causation_id=state.event_id, approves=ApprovedProposal(state.id, state.operation)
    )
    return await EXECUTED_BY[type(change)](executor, approving, warehouse, change)
