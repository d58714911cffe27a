"""Applies small mutations to the code, one at a time, and checks whether the tests of the module fail.

    python -m tests.mutation [--one-in N] [--seed S] [--minutes M] [--modules PATH ...]
    python -m tests.mutation --mutant MODULE OPERATOR OCCURRENCE

The mutants are cosmic-ray's. One of N is drawn by a hash of the seed and its name, so that the same code always results in the same sample.
They are applied to a copy of the checkout. tests.toml lists the tests of each module. A mutant that survives must be listed in
equivalent.toml with a reason, or the run fails. The report is in `.cache/mutation/`. It uses only the standard library: cosmic-ray runs in
its own environment, and the tests in the project's.
"""

import argparse
import difflib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from requirements import environment
from tests.servers.java import java_environment
from tests.servers.paths import ROOT

HERE = Path(__file__).resolve().parent
TARGETS = ("domain", "commands", "publishers", "projections/verify.py")
ONE_IN_DEFAULT = 40
SECONDS_MIN = 120.0
SLOWER_MAX = 4
"""A mutant whose tests take this many times as long as usual, and at least SECONDS_MIN, counts as killed."""
LINKED = (".tools", ".cache")


@dataclass(frozen=True)
class Mutant:
    module: str
    operator: str
    occurrence: int

    def place(self, seed: int) -> float:
        """A mutant's rank from 0 to 1, independent of other mutants."""
        name = f"{seed} {self.module} {self.operator} {self.occurrence}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64


@dataclass(frozen=True)
class Result:
    """`was` and `becomes` -- the changed lines without indentation. `diff` -- for readers."""

    mutant: Mutant
    outcome: str
    was: str
    becomes: str
    diff: str


class Mutation:
    """One run in one copy of the checkout."""

    def __init__(self, copy: Path, python: Path) -> None:
        self._copy = copy
        self._python = python
        self._tests: dict[str, list[str]] = tomllib.loads((HERE / "tests.toml").read_text())
        self._seconds: dict[tuple[str, ...], float] = {}

    def mutants(self, modules: list[str]) -> list[Mutant]:
        found = json.loads(self._cosmic_ray("list", *modules))
        return [Mutant(module, operator, occurrence) for module, operator, occurrence in found]

    def run(self, mutant: Mutant) -> Result:
        tests = self.tests_of(mutant.module)
        if tests not in self._seconds:
            self._seconds[tests] = self._time_unchanged(tests)
        file = self._copy / mutant.module
        original = file.read_text(encoding="utf-8")
        mutated = self._cosmic_ray("mutate", mutant.module, mutant.operator, str(mutant.occurrence))
        was, becomes = _changed_lines(original, mutated)
        try:
            file.write_text(mutated, encoding="utf-8")
            outcome = self._outcome(tests, max(SECONDS_MIN, SLOWER_MAX * self._seconds[tests]))
        finally:
            file.write_text(original, encoding="utf-8")
        return Result(mutant, outcome, was, becomes, _diff(mutant.module, original, mutated))

    def tests_of(self, module: str) -> tuple[str, ...]:
        """The tests of the longest matching path in tests.toml. Raises KeyError if there is none."""
        return tuple(self._tests[max((path for path in self._tests if module.startswith(path)), key=len)])

    def _time_unchanged(self, tests: tuple[str, ...]) -> float:
        started = time.monotonic()
        outcome = self._outcome(tests, 1_200)
        if outcome != "survived":
            raise SystemExit(f"Without any mutant the tests {' '.join(tests)} end with: {outcome}")
        return time.monotonic() - started

    def _outcome(self, tests: tuple[str, ...], seconds_max: float) -> str:
        # Not loaded: Schemathesis takes as long to import as everything else, and these tests do not use it.
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
        command = [str(self._copy / ".venv" / "bin" / "python"), "-m", "pytest", *options, *tests]
        variables = {**os.environ, **java_environment(), "ICECORE_TEST_ORACLE_SEQUENCES": "40"}
        if tests in self._seconds:
            # Keeps compiled files, except those of the mutant.
            variables["PYTHONDONTWRITEBYTECODE"] = "1"
        process = subprocess.Popen(command, cwd=self._copy, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            # Like Ctrl-C, so that its servers are stopped.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            return "killed by time"
        return "survived" if code == 0 else "killed"

    def _cosmic_ray(self, *arguments: str) -> str:
        command = [str(self._python), str(HERE / "mutants.py"), *arguments]
        return subprocess.run(command, cwd=self._copy, check=True, capture_output=True, text=True).stdout


def _changed_lines(original: str, mutated: str) -> tuple[str, str]:
    """The lines from the first to the last difference."""
    before, after = original.splitlines(), mutated.splitlines()
    while before and after and before[0] == after[0]:
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    return " ".join(line.strip() for line in before), " ".join(line.strip() for line in after)


def _diff(module: str, original: str, mutated: str) -> str:
    lines = difflib.unified_diff(original.splitlines(), mutated.splitlines(), module, module, lineterm="")
    return "\n".join(lines)


def _copied_checkout(folder: Path) -> Path:
    copy = folder / "checkout"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    # Python identifies byte code by the source's time and size, which a mutant may share with the original. Uses the source's hash instead.
    compiling = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
    subprocess.run([ROOT / ".venv" / "bin" / "python", *compiling], cwd=copy, check=True)
    for name in LINKED:
        (copy / name).symlink_to(ROOT / name)
    # A separate environment, because that of the checkout imports the checkout without the mutant.
    making = [sys.executable, "-m", "requirements.environment", ".venv", "requirements/dev.lock", "--project"]
    subprocess.run(making, cwd=copy, check=True)
    return copy


def _modules(wanted: list[str]) -> Iterator[str]:
    for target in wanted or TARGETS:
        path = ROOT / target
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            if file.name != "__init__.py":
                yield str(file.relative_to(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description="Do the tests notice small faults?")
    parser.add_argument("--one-in", type=int, default=ONE_IN_DEFAULT, help="how many mutants there are for each that is drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="when to stop; the mutant under way is finished")
    parser.add_argument("--modules", nargs="*", default=[], help="files or folders instead of all")
    parser.add_argument(
        "--mutant", nargs=3, action="append", metavar=("MODULE", "OPERATOR", "OCCURRENCE"), help="this one instead of a draw"
    )
    given = parser.parse_args()
    until = time.monotonic() + given.minutes * 60
    python = environment.make(ROOT / ".tools" / "mutation", ROOT / "requirements" / "mutation.lock")
    argued = {
        (one["module"], one["was"], one["becomes"]) for one in tomllib.loads((HERE / "equivalent.toml").read_text()).get("equivalent", [])
    }
    report = ROOT / ".cache" / "mutation" / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}.jsonl"
    report.parent.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="icecore-mutation-") as folder, report.open("w", encoding="utf-8") as lines:
        Path(folder).chmod(0o755)
        mutation = Mutation(_copied_checkout(Path(folder)), python)
        if given.mutant:
            drawn = [Mutant(module, operator, int(occurrence)) for module, operator, occurrence in given.mutant]
        else:
            drawn = [mutant for mutant in mutation.mutants(list(_modules(given.modules))) if mutant.place(given.seed) < 1 / given.one_in]
            drawn.sort(key=lambda mutant: mutant.place(given.seed))
        for mutant in drawn:
            if time.monotonic() > until:
                break
            result = mutation.run(mutant)
            outcome = result.outcome
            if (mutant.module, result.was, result.becomes) in argued:
                outcome = "argued equivalent" if outcome == "survived" else "argued equivalent, yet killed"
            counts[outcome] += 1
            lines.write(json.dumps({**asdict(result), "outcome": outcome}) + "\n")
            lines.flush()
            if outcome not in ("killed", "killed by time", "argued equivalent"):
                print(f"\n{outcome}: --mutant {mutant.module} {mutant.operator} {mutant.occurrence}\n{result.diff}", flush=True)
    print(f"\n{counts.total()} of {len(drawn)} mutants: {dict(counts)}; {report}")
    sys.exit(1 if counts["survived"] else 0)


if __name__ == "__main__":
    main()
