"""A command that waits says for what, on standard error."""

import time

import pytest

from icecore import waiting_notice
from icecore.waiting_notice import noticed
from tests.fixtures.waiting import wait_for


def test_a_long_wait_is_said_once_for_each_reason(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Before five seconds have passed, and without markup."""
    assert waiting_notice.NOTICE_SECONDS <= 5
    monkeypatch.setattr(waiting_notice, "NOTICE_SECONDS", 0.05)
    monkeypatch.setattr(waiting_notice, "CHANGE_SECONDS", 0.01)
    reasons, said = ["the [database]"], ""

    def shown() -> bool:
        nonlocal said
        said += capsys.readouterr().err
        return reasons[0] in said

    with noticed(lambda: reasons[0]):
        wait_for(shown)
        reasons[0] = "the sink"
        wait_for(shown)
        time.sleep(0.1)
    assert "waiting for the [database]\nwaiting for the sink\n" == said + capsys.readouterr().err


def test_a_short_wait_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    with noticed("the database"):
        pass
    assert "" == capsys.readouterr().err
