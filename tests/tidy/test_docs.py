"""Pages of docs/: links are valid, the front page links every page, the glossary is short."""

import ast
import functools
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from icecore.api.iceberg.operations import OPERATIONS
from icecore.cli import app
from icecore.exit_codes import ExitCode
from icecore.security.client_properties import PERMITTED
from icecore.settings import CONFIG_VARIABLE, Settings, setting_names
from tests.fixtures.readme import pieces, properties
from tests.servers.paths import ROOT

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
    "migrations",
    "pipeline",
    "projections",
    "publishers",
    "queries",
    "security",
    "storage",
)


# What a reader runs or copies; the other blocks show data.
RUN = ("bash", "python", "sql", "toml", "nginx", "ini", "properties")
ICECORE_COMMANDS = sorted(
    {
        line
        for page in PAGES
        for code in pieces(page.read_text()).values()
        for line in code.replace("\\\n", " ").splitlines()
        if line.startswith("icecore ")
    }
)


def shown(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub generates them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """The links of a page to files in the repository."""
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
    """Each page of docs/ is in a folder for its kind."""
    assert FOLDERS == {page.relative_to(DOCS).parts[0] for page in DOCS.rglob("*.md")}


@pytest.mark.parametrize("page", [page for page in PAGES if DOCS in page.parents and page.parent.name != "decisions"], ids=shown)
def test_readme_links_the_page(page: Path) -> None:
    """Every page except the decisions is linked from the README."""
    assert page in [(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")]


def test_glossary_is_short_and_sorted() -> None:
    """One line per term."""
    terms = re.findall(r"^\| ([^|]+?) \|", (DOCS / "concepts" / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert sorted(terms) == terms
    assert len(terms) <= GLOSSARY_TERMS_MAX


def test_metrics_page_lists_every_metric() -> None:
    """The names in icecore/metrics.py and icecore/metrics_port.py, of counters with their suffix."""
    code = "".join((ROOT / "icecore" / name).read_text() for name in ("metrics.py", "metrics_port.py"))
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


def test_warehouses_page_lists_every_permitted_property_with_its_values() -> None:
    """One in a line, in the order of `PERMITTED`. A number by its range, a word by its alternatives."""
    page = (DOCS / "how-to" / "warehouses.md").read_text().split("| key | values | what it tunes |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.strip().splitlines()[1:]]
    listed = {key.strip("`"): (tuple(re.findall(r"`([^`]+)`", values)) or values) for key, values, _ in rows}
    expected = {key: values if isinstance(values, tuple) else f"{values[0]} to {values[-1]}" for key, values in PERMITTED.items()}
    assert [*expected.items()] == [*listed.items()]
    assert all(tunes for _, _, tunes in rows)


def test_pages_that_messages_name_exist() -> None:
    """By their titles."""
    titles = {page.read_text().partition("\n")[0].removeprefix("# ") for page in DOCS.rglob("*.md")}
    code = "".join(path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    named = re.findall(r"see '([^']+)' in the documentation", code)
    assert {"Event sinks", "Settings", "Upgrade", "Warehouses"} <= {*named}
    assert set() == {*named} - titles


def test_log_records_page_lists_every_name() -> None:
    """Names of log records."""
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
    listed = set(re.findall(r"`([a-z_]+)`", (DOCS / "reference" / "log-records.md").read_text()))
    assert set() == found - listed


def test_systemd_unit_starts_an_existing_command_with_existing_settings() -> None:
    """The page's unit and its environment."""
    page = pieces((DOCS / "how-to" / "systemd.md").read_text())
    unit = properties(page["systemd unit"])
    assert unit["ExecStart"].endswith("/bin/icecore serve")
    assert set(properties(page["systemd environment"])) <= set(setting_names())
    assert int(unit["TimeoutStopSec"]) > Settings.model_fields["shutdown_grace_seconds"].default


def test_other_commands_run_as_the_systemd_unit() -> None:
    """With its account, its settings and its program."""
    page = pieces((DOCS / "how-to" / "systemd.md").read_text())
    unit, (program, *options) = properties(page["systemd unit"]), page["systemd command"].split()
    assert ["systemd-run", "--pipe", "--wait"] == [program, *options[:2]]
    assert [f"--property={name}={unit[name]}" for name in ("User", "EnvironmentFile")] == options[2:4]
    assert [*unit["ExecStart"].split()[:1], "doctor"] == options[4:]


def test_systemd_unit_knows_the_exit_codes() -> None:
    """A stop before the server is ready is no failure, a wrong setting is not tried again, and a database is waited for without end."""
    unit = properties(pieces((DOCS / "how-to" / "systemd.md").read_text())["systemd unit"])
    assert ("on-failure", "0") == (unit["Restart"], unit["StartLimitIntervalSec"])
    assert (str(128 + signal.SIGTERM), str(ExitCode.USAGE)) == (unit["SuccessExitStatus"], unit["RestartPreventExitStatus"])


def test_page_lists_the_operations_that_are_not_implemented() -> None:
    """Those of Iceberg's OpenAPI document that `api/iceberg/operations.py` lacks."""
    document = (ROOT / "tests" / "conformance" / "openapi" / "rest-catalog-open-api.yaml").read_text()
    specified = set(re.findall(r"^ +operationId: (\w+)$", document, re.MULTILINE))
    page = (DOCS / "reference" / "rest-extensions.md").read_text()
    section = page.partition("## Operations that are not implemented\n")[2].partition("\n## ")[0]
    listed = [name for row in re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(specified - {operation.name for operation in OPERATIONS}) == sorted(listed)


def test_service_is_the_unit_of_the_page() -> None:
    """Its commands name the unit, and the unit starts what the page on installing makes."""
    page = (DOCS / "how-to" / "systemd.md").read_text()
    assert "/etc/systemd/system/icecore.service" in page
    assert ["systemctl enable --now icecore", "journalctl -u icecore -f"] == pieces(page)["systemctl"].splitlines()
    environment = pieces((DOCS / "start" / "installing.md").read_text())["virtual environment"].splitlines()
    assert f"{environment[0].split()[-1]}/bin/icecore serve" == properties(pieces(page)["systemd unit"])["ExecStart"]


def test_settings_of_the_roles_exist() -> None:
    """Both URLs of docs/how-to/database-roles.md."""
    page = pieces((DOCS / "how-to" / "database-roles.md").read_text())
    assert {"ICECORE_DATABASE_URL", "ICECORE_DATABASE_OWNER_URL"} == set(properties(page["database settings"])) & set(setting_names())


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_command_of_a_page_is_run_or_checked(page: Path) -> None:
    """A block of code has a name, and a test reads it by that name. Decisions are of their day."""
    if page.parent.name == "decisions":
        return
    text = page.read_text()
    for language, code in re.findall(r"(?<!-->\n)^```([a-z]+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        assert language not in RUN, f"{shown(page)} has a block without a name: {code}"
    unread = {name for name in pieces(text) if not any(f'"{name}"' in test for test in _tests())}
    assert set() == unread


@functools.cache
def _tests() -> list[str]:
    return [file.read_text() for file in (ROOT / "tests").rglob("*.py")]


@pytest.mark.parametrize("command", ICECORE_COMMANDS)
def test_icecore_has_the_command(command: str) -> None:
    """With these options. What a pipe or a redirection leads to is not ours."""
    app.parse_args(shlex.split(re.split(r"  #| [|>] ", command)[0])[1:], exit_on_error=False, print_error=False)


def test_a_wrong_option_would_be_found() -> None:
    """Of a command that exists."""
    with pytest.raises(CycloptsError):
        app.parse_args(["log", "--tables", "x"], exit_on_error=False, print_error=False)


def test_targets_of_the_pages_exist() -> None:
    """`make` knows them, without running them."""
    for page in PAGES:
        for line in pieces(page.read_text()).get("targets", "").splitlines():
            done = subprocess.run(["make", "--dry-run", line.split()[1]], cwd=ROOT, capture_output=True, check=False)
            assert 0 == done.returncode, f"{shown(page)}: {line}"


def test_inner_loop_of_contributors() -> None:
    """tests/tidy/test_contributing.py runs its commands; each is a program of the environment."""
    lines = pieces((ROOT / "CONTRIBUTING.md").read_text())["inner loop"].splitlines()
    assert all(line.startswith(".venv/bin/python -m ") for line in lines)


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=shown)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    """`ICECORE_…` is a setting, or one of a sink or hook, except those of tests."""
    named = set(re.findall(r"\bICECORE_[A-Z][A-Z_]*[A-Z]\b", page.read_text()))
    known = {*setting_names(), CONFIG_VARIABLE}
    assert set() == {name for name in named - known if not name.startswith(NOT_SETTINGS)}
