"""The results of a run: JSON with everything, and a page with the table, named by day and machine."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from benchmarks.findings import Finding

Json = dict[str, Any]

RESULTS = Path(__file__).resolve().parent / "results"
_LARGE_FIGURE = 100


def line(finding: Finding) -> str:
    goal = "" if finding.goal is None else f", goal {finding.goal.text}"
    why = "" if finding.void is None else f" ({finding.void})"
    return f"{finding.what}: {_figure(finding)}{goal}: {finding.verdict}{why}"


def table(findings: Sequence[Finding]) -> str:
    """The findings as a Markdown table."""
    rows = [f"| {each.claim} | {each.what} | {_figure(each)} | {_goal(each)} | {each.verdict} |" for each in findings]
    return "\n".join(["| claim | what | figure [95 %] | goal | |", "|---|---|---|---|---|", *rows])


def _goal(finding: Finding) -> str:
    return "–" if finding.goal is None else finding.goal.text


def _figure(finding: Finding) -> str:
    def text(value: float) -> str:
        return f"{value:,.0f}" if abs(value) >= _LARGE_FIGURE else f"{value:.2f}"

    interval = "" if finding.interval is None else f" [{text(finding.interval[0])}, {text(finding.interval[1])}]"
    return f"{text(finding.figure)} {finding.unit}".strip() + interval


def write(setting: Json, findings: Sequence[Finding], *, partial: bool = False) -> Path:
    """The page of a run's findings."""
    kind = "" if setting["measured"] == "icecore" else "-other"
    everything = [finding.to_json() for finding in findings]
    return write_page(setting, f"{table(findings)}\n{_voids(findings)}", everything, kind=kind, partial=partial)


def write_page(setting: Json, text: str, findings: Any, *, kind: str = "", partial: bool = False) -> Path:
    """Writes `<date>-<machine>[-kind][-form][-partial].json` and `.md`. Returns the path of the page.

    partial -- not all claims were run; stored separately, so that it does not replace a complete run of the day.
    """
    RESULTS.mkdir(exist_ok=True)
    form = "" if setting["form"] == "short" else f"-{setting['form']}"
    name = f"{datetime.now(UTC):%Y-%m-%d}-{_slug(setting['machine'])}{kind}{form}{'-partial' if partial else ''}"
    page = RESULTS / f"{name}.md"
    everything = {"setting": setting, "findings": findings}
    page.with_suffix(".json").write_bytes(orjson.dumps(everything, option=orjson.OPT_INDENT_2) + b"\n")
    page.write_text(f"# {name}\n\n{_setting(setting)}\n\n{text.rstrip()}\n")
    return page


def _setting(setting: Json) -> str:
    packages = ", ".join(f"{package} {version}" for package, version in setting["packages"].items())
    busiest = max(setting.get("busy_before", {}).values(), default=0.0)
    return (
        f"{setting['measured']} at {setting['commit']}, {setting['form']} form ({setting['rounds']} rounds of "
        f"{setting['block_seconds']} s), {setting.get('seconds', 0)} s. "
        f"{setting['machine']}, {setting['memory_gib']} GiB, {setting['system']}; Python {setting['python']}, "
        f"Postgres {setting['postgres']}, {packages}. Load average at the start {setting['load_average']}; "
        f"between claims others used up to {busiest:.0%} of the processors."
    )


def _voids(findings: Sequence[Finding]) -> str:
    reasons = dict.fromkeys(f"- {finding.claim}: {finding.void}" for finding in findings if finding.void is not None)
    return "\nVoid:\n" + "\n".join(reasons) + "\n" if reasons else ""


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]
