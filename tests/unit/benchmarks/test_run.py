"""Which claims a run measures, and whether its result replaces the published one."""

import sys
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import run
from benchmarks.claims import CLAIMS


@pytest.mark.parametrize(
    ("claim", "given", "wanted"),
    [
        ({}, {}, True),
        ({"long_only": True}, {}, False),
        ({"long_only": True}, {"long": True}, True),
        ({"over_http": False}, {"uri": "http://other"}, False),
        ({"over_http": True}, {"uri": "http://other"}, True),
        ({"over_http": False, "name": "a"}, {"uri": "http://other", "only": ["a"]}, True),
        ({"name": "a"}, {"only": ["b"]}, False),
    ],
)
def test_a_claim_is_measured_if_it_can_be(claim: dict[str, Any], given: dict[str, Any], wanted: bool) -> None:
    """Of another server, what is measured over HTTP alone."""
    one: Any = SimpleNamespace(**{"name": "a", "long_only": False, "over_http": True, **claim})
    assert wanted == run._wanted(one, Namespace(**{"only": None, "long": False, "uri": None, **given}))


@pytest.mark.parametrize(("arguments", "partial"), [([], False), (["--only", CLAIMS[0].name], True), (["--profile", "profiles"], True)])
def test_a_run_of_some_claims_or_under_a_profiler_is_a_partial_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], partial: bool
) -> None:
    """It does not replace the day's whole result."""
    written: list[bool] = []
    bench = SimpleNamespace(cluster=SimpleNamespace(version=lambda: "16"), rounds=1, block_seconds=1)

    def opened(_: ExitStack, __: Namespace) -> Any:
        return bench

    monkeypatch.setattr(run, "_bench", opened)
    monkeypatch.setattr(run, "_run", lambda *_: [])
    monkeypatch.setattr(run.machine, "busy_share", lambda: 0.0)
    monkeypatch.setattr(run.report, "write", lambda *_, partial: written.append(partial) or tmp_path)
    monkeypatch.setattr(sys, "argv", ["run", *arguments])
    monkeypatch.chdir(tmp_path)
    run.main()
    assert {partial} == {*written}
