"""CONTRIBUTING.md and SECURITY.md name existing commands, targets and files."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "SECURITY.md")
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]
LINKS = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())]


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_link_leads_to_a_file(page: str, link: str) -> None:
    assert (ROOT / link).exists(), f"{page} links to {link}"


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_target_exists(command: str) -> None:
    """Checked with `make -n`."""
    assert 0 == subprocess.run(["make", "--dry-run", command.split()[1]], cwd=ROOT, capture_output=True, check=False).returncode


@pytest.mark.parametrize("command", [command for command in COMMANDS if " -m pytest " in command])
def test_pytest_finds_tests(command: str) -> None:
    """Pytest collects at least one."""
    arguments = shlex.split(command)[1:]
    collected = subprocess.run(
        [sys.executable, *arguments, "--collect-only", "-q"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert 0 == collected.returncode, collected.stdout[-2_000:]


def test_help_names_every_target() -> None:
    """Those that people call."""
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in set(phony[1].split()) - {"help"}:
        assert re.search(rf"\b{target}\b", said), f"make help does not name {target}"


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:tests|api|benchmarks|docs|publishers)/[\w./-]*)`", (ROOT / "CONTRIBUTING.md").read_text())))
)
def test_named_file_exists(path: str) -> None:
    """Files and folders in backticks."""
    assert (ROOT / path).exists()
