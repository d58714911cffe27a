"""`icecore pipeline maintain`: shows a plan of maintenance, and runs it."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from .access.request_context import Principal
from .commands.execution.executor import CommandExecutor
from .commands.maintenance.record_runs import PlannedRun, record_outcome, record_plan, table_to_maintain
from .compose import Application, open_catalog
from .domain.errors import NoSuchTable, NoSuchWarehouse, TableProtected, WarehouseReadOnly
from .exit_codes import CommandFailed, ExitCode
from .log_database import opened_database, require_schema, require_writable
from .operator_commands import print_report
from .output import cell, print_table, printable
from .pipeline.maintain import CannotMaintain, CurrentTable, MaintenanceResult, RunResult, current_policy
from .pipeline.maintain import maintain as run_plan
from .pipeline.maintenance_facts import table_facts
from .pipeline.maintenance_plan import Candidate, Plan, plan_maintenance
from .pipeline_commands import PipelineTarget, open_pipeline, require_landed_log
from .settings import Settings

MAINTENANCE = Principal("icecore-maintenance")
"""Of the events of runs. The commits of the procedures have the principal of the catalog's client."""
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class MaintainOptions:
    """What is done with the plan; neither run nor shadow: it is shown."""

    run: bool
    shadow: bool
    any_time: bool
    rewrite_gib_max: float


def maintain(settings: Settings, console: Console, target: PipelineTarget, options: MaintainOptions, *, as_json: bool) -> ExitCode:
    """Plans from the landed tables, shows the plan, and runs it if that is wanted."""
    if options.run and options.shadow:
        raise CommandFailed(ExitCode.USAGE, "--run and --shadow exclude each other")
    if not 0 <= options.rewrite_gib_max < float("inf"):
        raise CommandFailed(ExitCode.USAGE, "--rewrite-gib-max must be a number of at least 0")
    with opened_database(settings) as opened, open_pipeline(opened, target) as spark:
        require_landed_log(spark, target.warehouse)
        now = datetime.now(UTC)
        facts = table_facts(spark, now)
        plan = plan_maintenance(facts, now, rewrite_bytes_max=int(options.rewrite_gib_max * _GIB), any_time=options.any_time)
        if not as_json:
            _print_plan(console, plan)
        result = MaintenanceResult()
        if options.run or options.shadow:
            with run_recorder(opened) as recorder:

                def after_run(planned: Candidate, outcome: RunResult | None, skipped: str | None) -> None:
                    if not as_json:
                        console.out(_run_text(planned, outcome, skipped), highlight=False)

                result = run_plan(spark, plan.runs, recorder, now, shadow=options.shadow, after_run=after_run)
    if as_json:
        print_report(console, _as_json(plan, result))
    if result.stopped is not None:
        unavailable = any(outcome.outcome == "unavailable" for _, outcome in result.runs)
        code = ExitCode.CRASHED if unavailable else ExitCode.NO
        raise CommandFailed(code, f"The rest of the plan was skipped: {result.stopped}")
    return ExitCode.NO if any(outcome.outcome == "failed" for _, outcome in result.runs) else ExitCode.OK


@contextmanager
def run_recorder(opened: Settings) -> Iterator["RunRecorder"]:
    """Records runs through a catalog on the database for the length of the block."""
    stack = AsyncExitStack()

    async def open_to_write() -> Application:
        await require_schema(opened)
        await require_writable(opened)
        return await stack.enter_async_context(open_catalog(opened))

    with asyncio.Runner() as runner:
        try:
            yield RunRecorder(runner, runner.run(open_to_write()).commands)
        finally:
            runner.run(stack.aclose())


class RunRecorder:
    """Records runs between calls of Spark, which has no coroutines."""

    def __init__(self, runner: asyncio.Runner, commands: CommandExecutor) -> None:
        self._runner, self._commands = runner, commands

    def begin(self, planned: Candidate, *, shadow: bool) -> CurrentTable:
        try:
            table = self._runner.run(table_to_maintain(self._commands, MAINTENANCE, planned.warehouse_id, planned.table_id))
        except (NoSuchTable, NoSuchWarehouse, TableProtected, WarehouseReadOnly) as refusal:
            raise CannotMaintain(refusal.message) from None
        policy = current_policy(planned, table.properties)
        run = self._runner.run(
            record_plan(self._commands, MAINTENANCE, table, PlannedRun(planned.procedure, planned.reason, planned.estimate, shadow))
        )
        reference = f"{table.warehouse.project_id}/{table.warehouse.id}"
        return CurrentTable(reference, table.warehouse.id, table.namespace, table.name, table.location, policy, (table.warehouse, run))

    def finish(self, table: CurrentTable, outcome: RunResult) -> None:
        warehouse, run = table.run
        self._runner.run(
            record_outcome(
                self._commands,
                MAINTENANCE,
                warehouse,
                run,
                outcome.outcome,
                outcome.measured,
                attempts=outcome.attempts,
                duration_ms=outcome.duration_ms,
                error=outcome.error,
            )
        )


def _print_plan(console: Console, plan: Plan) -> None:
    if not plan.candidates and not plan.skipped:
        console.out("no table needs maintenance", highlight=False)
        return
    if plan.candidates:
        table = Table("procedure", "table", "reason", "estimate", "wait", box=None, pad_edge=False)
        for each in (*plan.runs, *plan.waiting):
            table.add_row(each.procedure, cell(each.name), cell(each.reason), _measures(each.estimate), each.wait_reason or "")
        print_table(console, table)
    for name, reason in plan.skipped:
        console.out(printable(f"{name} is left alone: {reason}"), highlight=False)


def _measures(measures: Any) -> str:
    return ", ".join(f"{name} {count}" for name, count in measures.items())


def _run_text(planned: Candidate, outcome: RunResult | None, skipped: str | None) -> str:
    if outcome is None:
        return printable(f"{planned.procedure} {planned.name}: skipped: {skipped}")
    said = outcome.error or _measures(outcome.measured)
    return printable(f"{planned.procedure} {planned.name}: {outcome.outcome} after {outcome.duration_ms / 1_000:.1f} s: {said}")


def _as_json(plan: Plan, result: MaintenanceResult) -> dict[str, Any]:
    return {
        "plan": [
            {**_identified(each), "reason": each.reason, "estimate": dict(each.estimate), "wait-reason": each.wait_reason}
            for each in plan.candidates
        ],
        "left-alone": [{"table": name, "reason": reason} for name, reason in plan.skipped],
        "runs": [
            {
                **_identified(each),
                "outcome": outcome.outcome,
                "measured": dict(outcome.measured),
                "attempts": outcome.attempts,
                "duration-ms": outcome.duration_ms,
                "error": outcome.error,
            }
            for each, outcome in result.runs
        ],
        "skipped": [{**_identified(each), "reason": reason} for each, reason in result.skipped],
        "stopped": result.stopped,
    }


def _identified(planned: Candidate) -> dict[str, str]:
    return {"procedure": planned.procedure, "table": planned.name, "table-id": str(planned.table_id)}
