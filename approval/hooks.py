"""Asks all hooks that match a change. A refusal takes precedence over a hold, and a hold over an allow."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

import structlog

from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import OpenConnection
from ..domain.client_errors import client_error_text
from ..domain.documents import Json
from ..domain.errors import ApprovalUnavailable, CatalogError, ChangeForbidden, ChangeHeld, ChangeInvalid, ChangeRefused
from ..domain.identifiers import dotted_key
from ..domain.proposal import ProposalState
from ..domain.scope_filter import ScopeFilter, kinds_like
from ..domain.streams import StreamChange
from .contract import ALLOW, REVIEWED_OPERATIONS, Allow, ApprovalHook, Hold, NoVerdictError, ProposedChange, Refuse, Verdict
from .proposed_change import ChangeReader, carries_files, held_objects

_log = structlog.get_logger("icecore.approval")

REASON_LENGTH_MAX = 2_000
HELD_SECONDS_MAX = 366 * 24 * 3600.0
_ERROR_LENGTH_MAX = 500

OnFailure = Literal["refuse", "allow"]
RefusalStatus = Literal[409, 403]


@dataclass(frozen=True, slots=True)
class HookFilter:
    """The changes that a hook reviews. An empty field matches all.

    operations -- operationIds. scope -- matches a change that affects one of its namespaces before or after.
    """

    operations: frozenset[str] = frozenset()
    scope: ScopeFilter = field(default_factory=ScopeFilter)

    @classmethod
    def parse(cls, operations: Sequence[str], warehouses: Sequence[str], namespaces: Sequence[str]) -> "HookFilter":
        """Raises FilterError for an operation pattern that matches no operation, and for an invalid warehouse or namespace name."""
        return cls(kinds_like(operations, REVIEWED_OPERATIONS, "operations"), ScopeFilter.parse(warehouses, namespaces))

    def matches(self, change: ProposedChange) -> bool:
        if self.operations and change.operation not in self.operations:
            return False
        return self.scope.matches(
            change.warehouse_id,
            change.warehouse_name,
            lambda: (dotted_key(".".join(levels)) for each in change.objects for levels in each.namespaces),
        )


@dataclass(frozen=True, slots=True)
class ConfiguredHook:
    """A hook with its name in the settings.

    on_failure -- what happens if there is no verdict: `refuse` responds 503, `allow` allows the change.
    refusal_status -- the status of refusals and holds: 409, or 403, which no engine retries or takes for an existing name.
    """

    name: str
    hook: ApprovalHook
    timeout_seconds: float
    on_failure: OnFailure
    hook_filter: HookFilter = HookFilter()
    refusal_status: RefusalStatus = 409


@dataclass(slots=True)
class ApprovalHookMetrics:
    """Counters for the metrics: verdicts by (hook, `allow` `refuse` `hold` or `failure`), and seconds by hook."""

    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)


class PendingApproval(ChangeHeld, status=409, type="ChangeHeldException"):
    """Raised if a hook holds the change; it has the content of the proposal. It is never sent to a client, because the proposal has no id
    yet.
    """

    def __init__(self, hook: str, reason: str, expires_in_seconds: float, objects: list[Json], refusal_status: RefusalStatus) -> None:
        super().__init__(reason)
        self.refusal_status = refusal_status
        self.hook = hook
        self.expires_in_seconds = expires_in_seconds
        self.objects = objects


class ApprovalHooks:
    """The hooks of this process."""

    def __init__(self, hooks: Sequence[ConfiguredHook], open_connection: OpenConnection) -> None:
        self.metrics = ApprovalHookMetrics()
        self._hooks = tuple(hooks)
        self._reader = ChangeReader(open_connection)

    async def review(self, context: RequestContext, warehouse: Warehouse, changes: Sequence[StreamChange]) -> Mapping[UUID, UUID]:
        """Returns the namespaces whose properties the verdicts depend on, with their newest events.

        Raises ChangeRefused, PendingApproval, or ApprovalUnavailable if a hook with `on_failure = refuse` gave no verdict.
        """
        if all(isinstance(change.after, ProposalState) for change in changes):
            return {}
        dependencies: dict[UUID, UUID] = {}
        change = await self._reader.read(context, warehouse, changes, dependencies)
        hooks = [hook for hook in self._hooks if hook.hook_filter.matches(change)]
        if not hooks:
            return {}
        if len(hooks) == 1:
            verdicts = [await self._ask(hooks[0], change)]
        else:
            verdicts = await asyncio.gather(*(self._ask(hook, change) for hook in hooks))
        self._combine(warehouse, change, [*zip(hooks, verdicts, strict=True)], changes)
        # A copy, because a hook that timed out may still add to it.
        return dict(dependencies)

    def _combine(
        self,
        warehouse: Warehouse,
        change: ProposedChange,
        verdicts: Sequence[tuple[ConfiguredHook, Verdict | CatalogError]],
        changes: Sequence[StreamChange],
    ) -> None:
        refusals = [(hook, verdict.reason) for hook, verdict in verdicts if isinstance(verdict, Refuse)]
        if refusals:
            status = _status([hook for hook, _ in refusals])
            invalid = any(isinstance(verdict, Refuse) and verdict.invalid is True for _, verdict in verdicts)
            message = f"Refused by {_summary(refusals)}"
            raise ChangeInvalid(message) if invalid and status == 409 else _refusal(status, message)
        for _, verdict in verdicts:
            if isinstance(verdict, CatalogError):
                raise verdict
        holds = [(hook, verdict) for hook, verdict in verdicts if isinstance(verdict, Hold)]
        if not holds or change.approves is not None:
            return
        reasons, status = [(hook, hold.reason) for hook, hold in holds], _status([hook for hook, _ in holds])
        if carries_files(changes):
            why = "a change that adds files cannot wait for approval"
            raise _refusal(status, f"Refused by {_summary(reasons)}; {why}")
        reason = holds[0][1].reason[:REASON_LENGTH_MAX] if len(holds) == 1 else _summary(reasons)
        objects = held_objects(warehouse, change, changes)
        raise PendingApproval(holds[0][0].name, reason, min(hold.expires_in_seconds for _, hold in holds), objects, status)

    async def _ask(self, hook: ConfiguredHook, change: ProposedChange) -> Verdict | CatalogError:
        """The hook's verdict. If there is none, the result of its `on_failure`."""
        started = time.perf_counter()
        trace: BaseException | None = None
        task = asyncio.ensure_future(hook.hook.review(change))
        try:
            # The task is not awaited after the timeout, because a hook may ignore its cancellation.
            await asyncio.wait({task}, timeout=hook.timeout_seconds)
            if not task.done():
                failure = f"no verdict within {hook.timeout_seconds:g} seconds"
                task.add_done_callback(_forget)
            elif (error := task.exception()) is not None:
                failure = _failure(error)
                # The text of a plug-in's error is logged only in the trace, where secrets are redacted.
                trace = None if isinstance(error, NoVerdictError) else error
            else:
                verdict = task.result()
                failure = _invalid_verdict(verdict)
                if not failure:
                    self._count(hook, type(verdict).__name__.lower(), started)
                    return verdict
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            failure = "it was cancelled"
        finally:
            if not task.done():
                task.cancel()
        self._count(hook, "failure", started)
        _log.error(
            "approval_hook_failed",
            hook=hook.name, failure=failure, on_failure=hook.on_failure, request_id=change.request_id, exc_info=trace,
        )  # fmt: skip
        if hook.on_failure == "allow":
            return ALLOW
        return ApprovalUnavailable(f"The approval hook {hook.name} returned no verdict; nothing was changed")

    def _count(self, hook: ConfiguredHook, what: str, started: float) -> None:
        self.metrics.verdicts[hook.name, what] += 1
        self.metrics.seconds[hook.name] += time.perf_counter() - started  # type: ignore[assignment]


def _summary(reasons: Sequence[tuple[ConfiguredHook, str]]) -> str:
    return "; ".join(f"{hook.name}: {reason[:REASON_LENGTH_MAX]}" for hook, reason in reasons)


def _status(hooks: Sequence[ConfiguredHook]) -> RefusalStatus:
    return 403 if any(hook.refusal_status == 403 for hook in hooks) else 409


def _refusal(status: RefusalStatus, message: str) -> ChangeRefused:
    return ChangeForbidden(message) if status == 403 else ChangeRefused(message)


def _invalid_verdict(verdict: object) -> str:
    """Why the returned object is not a valid verdict; empty if it is one. Plug-ins may return anything."""
    match verdict:
        case Allow():
            return ""
        case Refuse():
            return "" if _is_reason(verdict.reason) else "a refusal without a reason"
        case Hold():
            if not _is_reason(verdict.reason):
                return "a hold without a reason"
            seconds: object = verdict.expires_in_seconds
            if isinstance(seconds, int | float) and math.isfinite(seconds) and 0 < seconds <= HELD_SECONDS_MAX:
                return ""
            return f"a hold whose time is not between 0 and {HELD_SECONDS_MAX:.0f} seconds"
    return f"{type(verdict).__name__} instead of a verdict"


def _is_reason(reason: object) -> bool:
    if not isinstance(reason, str) or not reason.strip() or "\0" in reason:
        return False
    try:
        reason.encode()
    except UnicodeEncodeError:
        return False
    return True


def _failure(error: BaseException) -> str:
    """The text of a NoVerdictError is meant to be logged. The text of any other error may contain data of the change."""
    return str(error)[:_ERROR_LENGTH_MAX] if isinstance(error, NoVerdictError) else client_error_text(error)


def _forget(task: "asyncio.Future[Verdict]") -> None:
    """Retrieves the exception of an abandoned task, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
