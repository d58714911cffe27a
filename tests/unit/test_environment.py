"""The environment of `make setup`: what makes it anew."""

from pathlib import Path

import pytest

from requirements import environment


def test_a_change_of_the_project_or_the_lock_makes_the_environment_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise a new command or package of ours would be missing from it."""
    filled: list[Path] = []
    project, lock = tmp_path / "pyproject.toml", tmp_path / "dev.lock"
    for file in (project, lock, tmp_path / "build.lock"):
        file.write_text("a")
    (tmp_path / "venv").mkdir()
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(environment, "_fill", lambda folder, _, *, project: filled.append(folder))
    monkeypatch.setattr(environment, "_link_types", lambda _: None)
    for change, fills in ((None, 1), (None, 1), (project, 2), (None, 2), (lock, 3)):
        if change is not None:
            change.write_text("b")
        environment.make(tmp_path / "venv", lock, project=True)
        assert fills == len(filled)
