"""Credentials are fetched once for all who wait, renewed in the background, and a failure is passed on and not repeated at once."""

import asyncio
import threading
import time

import pytest

from icecore.storage import renewed_credentials
from icecore.storage.renewed_credentials import NoCredentials, RenewedCredentials, TemporaryCredentials

CANARY = "canary-91d3"


class Source:
    """Fetches credentials that are valid for `seconds`, renewed after half of them; numbered."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds = seconds
        self.fetched = 0
        self.failure: Exception | None = None
        self.may_return = threading.Event()
        self.may_return.set()

    def __call__(self) -> TemporaryCredentials:
        assert threading.current_thread() is not threading.main_thread()
        self.fetched += 1
        number = self.fetched
        self.may_return.wait(10)
        if self.failure is not None:
            raise self.failure
        now = time.time()
        return TemporaryCredentials(str(number), CANARY, CANARY, now + self.seconds / 2, now + self.seconds)


async def test_all_who_wait_share_one_fetch() -> None:
    """And those after them what it found."""
    source = Source()
    renewed = RenewedCredentials("AWS", source)
    await asyncio.gather(*(renewed.ready() for _ in range(10)))
    await renewed.ready()
    assert (1, "1") == (source.fetched, renewed.current().access_key_id)


async def test_a_renewal_is_not_waited_for() -> None:
    """The old ones are used until they expire; then it is."""
    source = Source(4.0)
    renewed = RenewedCredentials("AWS", source)
    await renewed.ready()
    source.may_return.clear()
    await asyncio.sleep(2.1)
    async with asyncio.timeout(1):
        await renewed.ready()
    assert "1" == renewed.current().access_key_id
    await asyncio.sleep(2)
    waiting = asyncio.create_task(renewed.ready())
    await asyncio.sleep(0.1)
    assert not waiting.done()
    source.may_return.set()
    await waiting
    assert (2, "2") == (source.fetched, renewed.current().access_key_id)


async def test_one_that_gives_up_takes_nothing_from_the_others() -> None:
    """A request that is cancelled does not end the fetch."""
    source = Source()
    source.may_return.clear()
    renewed = RenewedCredentials("AWS", source)
    first, second = (asyncio.create_task(renewed.ready()) for _ in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    source.may_return.set()
    await second
    assert 1 == source.fetched


async def test_a_fetch_that_hangs_is_waited_for_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second one is begun beside it, and what it finds late is used."""
    monkeypatch.setattr(renewed_credentials, "FETCH_SECONDS_MAX", 0.1)
    source = Source()
    source.may_return.clear()
    renewed = RenewedCredentials("AWS", source)
    for _ in range(3):
        with pytest.raises(NoCredentials, match="not found in time"):
            await renewed.ready()
    assert 1 == source.fetched
    source.may_return.set()
    await asyncio.sleep(0.1)
    await renewed.ready()
    assert 1 == source.fetched


async def test_a_fetch_that_does_not_end_is_abandoned(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The next request starts another, and what the first finds afterwards is not used."""
    monkeypatch.setattr(renewed_credentials, "FETCH_SECONDS_MAX", 0.1)
    monkeypatch.setattr(renewed_credentials, "ABANDONED_SECONDS", 0.2)
    monkeypatch.setattr(renewed_credentials, "RETRY_SECONDS", 0.0)
    source = Source()
    source.may_return.clear()
    renewed = RenewedCredentials("AWS", source)
    with pytest.raises(NoCredentials, match="not found in time"):
        await renewed.ready()
    await asyncio.sleep(0.2)
    abandoned, source.may_return = source.may_return, threading.Event()
    source.may_return.set()
    await renewed.ready()
    assert (2, "2") == (source.fetched, renewed.current().access_key_id)
    abandoned.set()
    await asyncio.sleep(0.1)
    assert "2" == renewed.current().access_key_id
    assert "was not found in time" in capsys.readouterr().out


@pytest.mark.parametrize(("failure", "said"), [(NoCredentials("none"), "none"), (ValueError(CANARY), "the AWS client failed: ValueError")])
async def test_a_failure_is_reported_and_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: Exception, said: str
) -> None:
    """The log has one record of a kind, and one when it is over."""
    monkeypatch.setattr(renewed_credentials, "RETRY_SECONDS", 60.0)
    source = Source()
    source.failure = failure
    renewed = RenewedCredentials("AWS", source)
    for fetched, is_over in ((1, False), (1, False), (2, True)):
        if is_over:
            renewed._retry_at = 0.0
        with pytest.raises(NoCredentials, match=f"^{said}$"):
            await renewed.ready()
        assert fetched == source.fetched
    source.failure, renewed._retry_at = None, 0.0
    await renewed.ready()
    logged = capsys.readouterr().out
    assert (1, 1) == (logged.count("system_identity_failed"), logged.count("system_identity_recovered"))
    assert CANARY not in logged + repr(renewed.current())
