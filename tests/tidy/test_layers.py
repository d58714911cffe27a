"""The layers of docs/concepts/architecture.md: imports point down."""

import ast
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

# The layers that each folder may import, besides itself.
BELOW = {
    "domain": set(),
    "database": {"domain"},
    "migrations": {"database"},
    "security": {"domain", "database"},
    "storage": {"domain"},
    "log": {"domain", "database"},
    "projections": {"domain", "database", "migrations"},
    "access": {"domain", "database", "log", "projections", "security", "storage"},
    "publishers": {"domain", "database", "log", "projections"},
    "approval": {"access", "domain", "database", "projections", "publishers"},
    # Peers: neither needs the other.
    "queries": {"access", "domain", "database", "log", "projections", "security", "storage"},
    "commands": {"access", "approval", "domain", "database", "log", "projections", "security", "storage"},
    # Reads of read models and the log go through queries.
    "api": {"access", "commands", "domain", "queries", "storage"},
    "pipeline": {"domain", "database", "log", "projections", "publishers"},
    "icecore": {
        "access",
        "api",
        "approval",
        "commands",
        "database",
        "domain",
        "log",
        "migrations",
        "pipeline",
        "projections",
        "publishers",
        "queries",
        "security",
        "storage",
    },
}

# A package inside a layer with fewer permitted imports of ours.
WITHIN = {
    "icecore.embedded_postgres": {
        "icecore.database",
        "icecore.domain.client_errors",
        "icecore.storage.file_sync",
        "icecore.exit_codes",
        "icecore.lock_files",
        "icecore.owned_files",
    },
}

# Folders that use the layers and that no layer uses.
OUTSIDE = {"tests", "benchmarks", "demo"}

# The domain has no I/O, waits, clock or random ids.
IMPURE = {
    "aiohttp", "asyncio", "logging", "obstore", "os", "pathlib", "psycopg", "random", "secrets", "socket", "structlog", "subprocess",
    "threading", "time", "uuid_utils",
}  # fmt: skip

AWAITED = {"Awaitable", "Coroutine", "AsyncIterator", "AsyncIterable", "AsyncGenerator", "Future", "Task"}


def modules(folder: str) -> list[Path]:
    return sorted((CHECKOUT / folder).rglob("*.py"))


def imported_modules(module: Path, root: Path = CHECKOUT) -> set[str]:
    """The full names of all imported modules, including imports inside functions; of `from a import b` both `a` and `a.b`.

    Our modules have their installed names: `icecore.domain.table` is domain/table.py, `icecore.settings` is icecore/settings.py.
    """
    folders = module.relative_to(root).parent.parts
    package = folders if folders[:1] == ("icecore",) else ("icecore", *folders)
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join([*above, *([node.module] if node.module else [])])
            found |= {name} | {f"{name}.{alias.name}" for alias in node.names}
    return found


def imported(module: Path, root: Path = CHECKOUT) -> set[str]:
    """The layers that a module imports, and the top-level names of all other imports."""
    found = set()
    for name in imported_modules(module, root):
        top, _, rest = name.partition(".")
        layer = rest.partition(".")[0]
        if top != "icecore":
            found.add(top)
        elif rest:
            found.add(layer if layer in BELOW else "icecore")
    return found


@pytest.mark.parametrize("folder", BELOW)
def test_imports_point_downwards(folder: str) -> None:
    """An import that points up creates a cycle."""
    ours = set(BELOW) | OUTSIDE
    upwards = {
        f"{module.relative_to(CHECKOUT)} imports {', '.join(sorted(wrong))}"
        for module in modules(folder)
        if (wrong := (imported(module) & ours) - BELOW[folder] - {folder})
    }
    assert set() == upwards


def imports_beside(module: Path, allowed: Iterable[str], root: Path = CHECKOUT) -> set[str]:
    """The imports of ours that are not in `allowed` or on the path to one of them."""
    ours = {name for name in imported_modules(module, root) if name.partition(".")[0] in {"icecore"} | OUTSIDE}
    return {name for name in ours if not any(f"{name}.".startswith(f"{other}.") or f"{other}.".startswith(f"{name}.") for other in allowed)}


@pytest.mark.parametrize("package", WITHIN)
def test_an_independent_package_imports_only_what_is_permitted(package: str) -> None:
    """The package can be understood, and moved, on its own."""
    found = {
        f"{module.relative_to(CHECKOUT)} imports {', '.join(sorted(wrong))}"
        for module in modules(package.replace(".", "/"))
        if (wrong := imports_beside(module, {package, *WITHIN[package]}))
    }
    assert set() == found


def test_an_import_from_around_a_package_would_be_found(tmp_path: Path) -> None:
    """For example an import of the settings, in any form."""
    package = tmp_path / "icecore" / "embedded_postgres"
    package.mkdir(parents=True)
    module = package / "module.py"
    for line in ("from .. import settings", "from ..settings import Settings", "import icecore.settings"):
        module.write_text(f"import json\nfrom ..lock_files import lock\n{line}\n")
        found = imports_beside(module, {"icecore.embedded_postgres", "icecore.lock_files"}, tmp_path)
        assert "icecore.settings" in found, line
        assert not any("lock" in name for name in found)


def test_every_folder_of_code_has_a_layer() -> None:
    """A new folder needs a layer before it is used."""
    folders = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")} - OUTSIDE
    assert set() == folders - set(BELOW)


def test_the_domain_is_pure() -> None:
    """Time, ids and actors are arguments; there is no I/O, logging or waiting."""
    impure = {f"{module.relative_to(CHECKOUT)} imports {name}" for module in modules("domain") for name in imported(module) & IMPURE}
    assert set() == impure


def test_the_domain_draws_no_ids_and_reads_no_clock() -> None:
    """`uuid4()` and `datetime.now()` are in modules that the domain imports for their types."""
    calls = {"uuid1", "uuid4", "uuid7", "now", "utcnow", "today"}
    found = {
        f"{module.relative_to(CHECKOUT)}:{node.lineno} calls {node.func.attr if isinstance(node.func, ast.Attribute) else ''}"
        for module in modules("domain")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in calls)
            or (isinstance(node.func, ast.Name) and node.func.id in calls)
        )
    }
    assert set() == found


def waiting(module: Path) -> set[str]:
    """Asynchronous code of the module: coroutines, awaits, and types for them."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith() | ast.Await():
                found.add(f"{module.name}:{node.lineno} waits")
            case ast.comprehension(is_async=1):
                found.add(f"{module.name}:{node.target.lineno} waits")
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in AWAITED:
                found.add(f"{module.name}:{node.lineno} names {name}")
    return found


def test_the_domain_does_not_wait() -> None:
    """Everything that a decision needs is passed as a value."""
    assert set() == {place for module in modules("domain") for place in waiting(module)}


def test_a_decision_that_waits_would_be_found(tmp_path: Path) -> None:
    """As a coroutine, or as the type of one."""
    module = tmp_path / "module.py"
    for line in (
        "async def f(): pass",
        "async def f(g):\n  return await g()",
        "f: Callable[[], Awaitable[int]]",
        "f: typing.Coroutine",
        "async def f(g):\n  return [x async for x in g]",
    ):
        module.write_text(line + "\n")
        assert waiting(module), line
    module.write_text("def decide(state):\n  return [x for x in state]\n")
    assert set() == waiting(module)


EVENTS = {
    node.name
    for node in ast.parse((CHECKOUT / "domain" / "events.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef) and node.name != "Event"
}


def events_made(module: Path) -> set[str]:
    """The events that the module creates itself."""
    return {
        f"{module.name}:{node.lineno} makes {name}"
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and (name := getattr(node.func, "id", getattr(node.func, "attr", ""))) in EVENTS
    }


@pytest.mark.parametrize("folder", ["api", "approval", "commands", "queries"])
def test_events_are_made_where_it_is_decided(folder: str) -> None:
    """Commands load states, call the domain and append its events."""
    assert set() == {place for module in modules(folder) for place in events_made(module)}


def test_an_event_made_elsewhere_would_be_found(tmp_path: Path) -> None:
    """With the name of the class or of its module. Checking the type of an event is permitted."""
    module = tmp_path / "module.py"
    made = "a = ViewDropped()\nb = events.TableDropped(True)\n"
    told_apart = "isinstance(c, TableDropped)\nmatch c:\n  case TableDropped(True): pass\n"
    module.write_text(made + told_apart)
    assert {"module.py:1 makes ViewDropped", "module.py:2 makes TableDropped"} == events_made(module)


def test_a_module_that_reaches_up_would_be_found(tmp_path: Path) -> None:
    """Imports inside functions are found, which often hide cycles."""
    (tmp_path / "domain").mkdir()
    module = tmp_path / "domain" / "module.py"
    module.write_text("def f():\n    from ..api.server import build_app\n    from .. import settings\n    from . import names\n")
    assert {"api", "icecore", "domain"} == imported(module, tmp_path)


def absolute(module: Path) -> set[str]:
    """Absolute imports of our modules: in a wheel, `domain` could be another package, and `icecore.domain` repeats the path."""
    ours = {"icecore", *BELOW}
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.partition(".")[0] in ours}
        elif isinstance(node, ast.ImportFrom) and not node.level and str(node.module).partition(".")[0] in ours:
            found.add(str(node.module))
    return found


@pytest.mark.parametrize("folder", BELOW)
def test_the_folders_import_one_another_relatively(folder: str) -> None:
    """So that they work in the checkout and in the installed package."""
    assert set() == {f"{module.relative_to(CHECKOUT)}: {name}" for module in modules(folder) for name in absolute(module)}


@pytest.mark.parametrize("folder", sorted(OUTSIDE))
def test_what_uses_icecore_imports_it_as_its_users_do(folder: str) -> None:
    """By their installed names."""
    found = {f"{module.relative_to(CHECKOUT)}: {name}" for module in modules(folder) for name in absolute(module)}
    assert set() == {place for place in found if ": icecore" not in place}


@pytest.mark.parametrize(
    "line", ["from icecore.domain.table import Table", "import domain", "from icecore.domain import table", "import icecore.settings"]
)
def test_an_absolute_import_would_be_found(tmp_path: Path, line: str) -> None:
    """Also inside a function."""
    module = tmp_path / "module.py"
    module.write_text(f"import json\nfrom .names import a\ndef f():\n    {line}\n")
    assert 1 == len(absolute(module))


def imports_of_ours(folders: Iterable[str], root: Path) -> dict[str, set[str]]:
    """Our modules that each module imports, including imports for types and inside functions."""
    found_in = [module for folder in folders for module in (root / folder).rglob("*.py")]
    dotted = {".".join(module.relative_to(root).with_suffix("").parts): module for module in found_in}
    files = {name if name.startswith("icecore.") else f"icecore.{name}": module for name, module in dotted.items()}
    return {name: (imported_modules(module, root) & files.keys()) - {name} for name, module in files.items()}


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """A cycle of imports in order; empty if there is none."""
    try:
        [*TopologicalSorter(imports).static_order()]
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_one_that_imports_it() -> None:
    """Imports for types count too."""
    assert [] == circle(imports_of_ours(BELOW, CHECKOUT))


def test_a_circle_would_be_found(tmp_path: Path) -> None:
    """Under TYPE_CHECKING as well."""
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "one.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .two import x\n")
    (tmp_path / "api" / "two.py").write_text("from . import one\n")
    assert {"icecore.api.one", "icecore.api.two"} == set(circle(imports_of_ours(["api"], tmp_path)))
