"""Promises hold behind PgBouncer too, and a check behind it turns red if its promise is broken."""

from pathlib import Path

import pytest

from benchmarks.reliability.fault_injection import CONTROLS
from tests.long_form import LONG
from tests.reliability.test_fault_injection import SECONDS_MAX, outcomes

pytestmark = pytest.mark.timeout(SECONDS_MAX + 60)


@pytest.mark.parametrize("mode", ["transaction", "session"] if LONG else ["transaction"])
def test_no_promise_breaks_behind_pgbouncer(tmp_path: Path, mode: str) -> None:
    proof = outcomes(tmp_path, "--no-controls", "--pooler", mode)[f"PgBouncer, {mode} mode"]
    assert {} == proof["red"]
    assert proof["acknowledged"] > 0
    assert proof["kills-in-flight"] > 0


def test_a_frozen_postgres_behind_pgbouncer_is_seen(tmp_path: Path) -> None:
    """PgBouncer accepts connections while Postgres is frozen. Without the limit on silence, requests wait."""
    name = "no limit on silence"
    broken = outcomes(tmp_path, "--only-controls", "--control", name, "--pooler", "transaction")[name]
    assert "error" not in broken, broken
    assert {CONTROLS[name].check} == {*broken["red"]}
