"""The log of a child process says which one it is."""

import base64
import contextvars
from collections.abc import Coroutine
from types import ModuleType
from typing import Any

import pytest
import structlog

from icecore import serving_process, worker
from icecore.settings import Settings


@pytest.mark.parametrize(("module", "name"), [(serving_process, "serving-2"), (worker, "worker")])
def test_the_records_of_a_child_have_its_name(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
    """The name that it has in the metrics and where it is restarted."""
    found: list[Any] = []

    def run(work: Coroutine[Any, Any, None]) -> None:
        work.close()
        found.append(structlog.contextvars.get_contextvars())

    parameters = {"number": 2, "descriptors": [], "settings": Settings().to_json(), "secret-keys": [base64.b64encode(bytes(32)).decode()]}
    monkeypatch.setattr(module, "receive_parameters", lambda: parameters)
    monkeypatch.setattr(module, "configure_logs_for", lambda *_: None)
    monkeypatch.setattr(module, "log_uncaught", lambda: None)
    monkeypatch.setattr(module.uvloop, "run", run)
    contextvars.copy_context().run(module.main)
    assert [{"process": name}] == found
