"""What the recorder of `icecore pipeline maintain` does before a run, and what the command prints at the end."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import orjson
import pytest

from icecore import maintenance_commands
from icecore.commands.maintenance.record_runs import MaintainedTable
from icecore.domain.errors import CatalogError, NoSuchTable, ServiceUnavailable, TableProtected
from icecore.domain.maintenance import Outcome
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.maintenance_commands import MaintainOptions, RunRecorder, _as_json, maintain
from icecore.output import Output
from icecore.pipeline.maintain import CannotMaintain, CurrentTable, MaintenanceResult, RunResult, current_policy
from icecore.pipeline.maintenance_plan import Candidate, Plan
from icecore.pipeline.maintenance_policy import MaintenancePolicy
from icecore.pipeline_commands import PipelineTarget, open_pipeline

PLANNED = Candidate(UUID(int=1), UUID(int=2), "t", "rewrite_data_files", "", {}, {"icecore.maintenance.enabled": "false"})


def begun(monkeypatch: pytest.MonkeyPatch, found: MaintainedTable | CatalogError) -> list[Any]:
    """What is recorded when the catalog responds with this."""
    recorded: list[Any] = []

    async def find(*given: Any) -> MaintainedTable:
        if isinstance(found, CatalogError):
            raise found
        return found

    async def record(*given: Any) -> None:
        recorded.append(given)

    monkeypatch.setattr(maintenance_commands, "table_to_maintain", find)
    monkeypatch.setattr(maintenance_commands, "record_plan", record)
    with asyncio.Runner() as runner:
        RunRecorder(runner, cast(Any, None)).begin(PLANNED, shadow=False)
    return recorded


def table(**properties: str) -> MaintainedTable:
    warehouse = cast(Any, SimpleNamespace(id=UUID(int=2), project_id=UUID(int=3)))
    named = {f"icecore.maintenance.{name}": value for name, value in properties.items()}
    return MaintainedTable(UUID(int=1), warehouse, ("n",), "t", "file:///w/t", named)


@pytest.mark.parametrize("refusal", [NoSuchTable("gone"), TableProtected("protected")])
def test_a_table_that_may_not_be_maintained_is_skipped(monkeypatch: pytest.MonkeyPatch, refusal: CatalogError) -> None:
    with pytest.raises(CannotMaintain, match=refusal.message):
        begun(monkeypatch, refusal)


def test_an_outage_is_no_reason_to_skip_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command would end as if it had succeeded."""
    with pytest.raises(ServiceUnavailable):
        begun(monkeypatch, ServiceUnavailable("Postgres is away"))


def test_nothing_is_recorded_if_the_properties_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotMaintain, match="do not permit"):
        begun(monkeypatch, table())
    assert 1 == len(begun(monkeypatch, table(enabled="true")))


def test_an_outcome_is_recorded_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []

    async def record(commands: Any, principal: Any, *given: Any, **more: Any) -> None:
        recorded.append((*given, more))

    monkeypatch.setattr(maintenance_commands, "record_outcome", record)
    begun = CurrentTable("w", UUID(int=2), ("n",), "t", "file:///w/t", MaintenancePolicy(), ("its warehouse", "its run"))
    outcome = RunResult("failed", {"files-deleted": 1}, attempts=3, duration_ms=70, error="why")
    with asyncio.Runner() as runner:
        RunRecorder(runner, cast(Any, None)).finish(begun, outcome)
    more = {"attempts": 3, "duration_ms": 70, "error": "why"}
    assert [("its warehouse", "its run", "failed", {"files-deleted": 1}, more)] == recorded


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        ({"icecore.maintenance.enabled": "true", "icecore.maintenance.procedures": "expire_snapshots"}, "do not permit rewrite_data_files"),
        ({"icecore.maintenance.min-input-files": "many"}, "Invalid icecore.maintenance.min-input-files"),
        ({}, "do not permit rewrite_data_files"),
    ],
)
def test_properties_that_forbid_a_run(properties: dict[str, str], refusal: str) -> None:
    with pytest.raises(CannotMaintain, match=refusal):
        current_policy(PLANNED, properties)


def test_the_properties_of_the_table_come_before_those_of_its_namespaces() -> None:
    policy = current_policy(PLANNED, {"icecore.maintenance.enabled": "true", "icecore.maintenance.min-input-files": "9"})
    assert 9 == policy.min_input_files


def test_json_says_why_the_rest_of_the_plan_was_skipped() -> None:
    assert "3 runs in a row failed" == _as_json(Plan([], []), MaintenanceResult(stopped="3 runs in a row failed"))["stopped"]


@pytest.mark.parametrize(("outcome", "code"), [("failed", ExitCode.NO), ("unavailable", ExitCode.CRASHED)])
def test_what_was_done_is_printed_before_the_command_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outcome: Outcome, code: ExitCode
) -> None:
    """A script gets the JSON of a plan that was stopped."""
    stopped = MaintenanceResult([(PLANNED, RunResult(outcome, {}, 1, 5, "no space"))], stopped="no space")
    for opened in ("opened_database", "open_pipeline", "run_recorder"):
        monkeypatch.setattr(maintenance_commands, opened, lambda *given: nullcontext(None))
    for name, result in (("require_landed_log", None), ("table_facts", []), ("run_plan", stopped)):
        monkeypatch.setattr(maintenance_commands, name, lambda *given, result=result, **named: result)
    with pytest.raises(CommandFailed, match="The rest of the plan was skipped: no space") as failed:
        maintain(
            cast(Any, None),
            Output(),
            PipelineTarget(None, "system", ()),
            MaintainOptions(run=True, shadow=False, any_time=False, rewrite_gib_max=1),
            as_json=True,
        )
    assert code == failed.value.code
    printed = orjson.loads(capsys.readouterr().out)
    assert ("no space", [outcome]) == (printed["stopped"], [run["outcome"] for run in printed["runs"]])


@pytest.mark.parametrize("setting", ["spark.master", "master=local", "=x", "spark.master local"])
def test_a_setting_of_spark_without_a_name_or_value_is_refused(setting: str) -> None:
    target = PipelineTarget("http://127.0.0.1:1/catalog", "system", (setting,))
    with pytest.raises(CommandFailed, match="must be KEY=VALUE") as refused, open_pipeline(cast(Any, None), target):
        pass
    assert ExitCode.USAGE == refused.value.code
