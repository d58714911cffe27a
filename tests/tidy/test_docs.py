"""Pages of docs/: links lead somewhere, the front page names every page, the glossary stays short."""

import ast
import re
from pathlib import Path

import pytest

from icecore.settings import CONFIG_VARIABLE, Settings, setting_names
from tests.fixtures.readme import pieces, properties
from tests.servers.places import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
FOLDERS = {"start", "how-to", "reference", "concepts", "decisions"}
GLOSSARY_TERMS_MAX = 30
NOT_SETTINGS = ("ICECORE_TEST", "ICECORE_SINKS", "ICECORE_HOOKS", "ICECORE_CONFORMANCE")
LEVELS = {"log", "debug", "info", "warning", "error", "exception", "critical"}
PACKAGES = (
    "access",
    "api",
    "approval",
    "commands",
    "database",
    "domain",
    "icecore",
    "log",
    "projections",
    "publishers",
    "queries",
    "storage",
)


def shown(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """The links of a page to places inside the repository."""
    return re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    """Every relative link names a file or folder, and its anchor a heading of that file."""
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{shown(page)} links to {link}"
        assert not anchor or anchor in anchors(target), f"{shown(page)} links to {link}"


def test_pages_stand_in_the_folders() -> None:
    """Each page of docs/ has a kind."""
    assert FOLDERS == {page.relative_to(DOCS).parts[0] for page in DOCS.rglob("*.md")}


@pytest.mark.parametrize("page", [page for page in PAGES if DOCS in page.parents and page.parent.name != "decisions"], ids=shown)
def test_readme_links_the_page(page: Path) -> None:
    """A reader who starts at the README finds every page but the decisions."""
    assert page in [(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")]


def test_glossary_is_short_and_sorted() -> None:
    """One line a term."""
    terms = re.findall(r"^\| ([^|]+?) \|", (DOCS / "concepts" / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert sorted(terms) == terms
    assert len(terms) <= GLOSSARY_TERMS_MAX


def test_metrics_page_lists_every_metric() -> None:
    """The names in icecore/metrics.py, of counters with their suffix."""
    code = (ROOT / "icecore" / "metrics.py").read_text()
    kinds = {
        "CounterMetricFamily": "_total",
        "_counter": "_total",
        "GaugeMetricFamily": "",
        "_gauge": "",
        "HistogramMetricFamily": "",
        "_sizes": "",
    }
    made = re.findall(r"(\w+)\(\s*\"(icecore_\w+)\"", code)
    listed = re.findall(r"^\| `(icecore_\w+)` \|", (DOCS / "reference" / "metrics.md").read_text(), re.MULTILINE)
    assert sorted(name + kinds.get(kind, "") for kind, name in made) == sorted(listed)


def test_log_events_page_lists_every_name() -> None:
    """Each name that a record of ours has; texts with spaces explain themselves."""
    found: set[str] = set()
    for module in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call):
                texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
                if isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS and "_log" in ast.unparse(node.func.value):
                    found |= set(texts[:1])
                elif isinstance(node.func, ast.Name) and node.func.id == "OutageLog":
                    found |= set(texts[1:])
                found |= {word.value.value for word in node.keywords if word.arg == "began" and isinstance(word.value, ast.Constant)}
    listed = set(re.findall(r"`([a-z_]+)`", (DOCS / "reference" / "log-events.md").read_text()))
    assert set() == {name for name in found if " " not in name} - listed


def test_systemd_unit_starts_an_existing_command_with_existing_settings() -> None:
    """The page's unit and its environment."""
    page = pieces((DOCS / "how-to" / "systemd.md").read_text())
    unit = properties(page["systemd unit"])
    assert unit["ExecStart"].endswith("/bin/icecore serve")
    assert set(properties(page["systemd environment"])) <= set(setting_names())
    assert int(unit["TimeoutStopSec"]) > Settings.model_fields["shutdown_grace_seconds"].default


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=shown)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    """`ICECORE_…` is a setting, or one of a sink or hook; those of tests are their own."""
    named = set(re.findall(r"\bICECORE_[A-Z][A-Z_]*[A-Z]\b", page.read_text()))
    known = {*setting_names(), CONFIG_VARIABLE}
    assert set() == {name for name in named - known if not name.startswith(NOT_SETTINGS)}
