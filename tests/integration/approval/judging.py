"""A hook with verdicts set by the test, and a served catalog that uses it."""

from collections.abc import Awaitable, Callable
from typing import Any

from icecore.approval.contract import ALLOW, ProposedChange
from icecore.approval.hooks import ApprovalHooks, ConfiguredHook, OnFailure, RefusalStatus
from icecore.compose import Application
from tests.fixtures.rest_client import RestClient, RestResponse

Say = Callable[[ProposedChange], Any]


class Judge:
    """Allows until `say` is set, whose result is the verdict; an awaitable is awaited. Records the changes it reviewed."""

    def __init__(self) -> None:
        self.shown: list[ProposedChange] = []
        self.say: Say | None = None

    async def review(self, change: ProposedChange) -> Any:
        self.shown.append(change)
        verdict = ALLOW if self.say is None else self.say(change)
        return await verdict if isinstance(verdict, Awaitable) else verdict

    def always(self, verdict: Any) -> None:
        self.say = lambda _: verdict


def asking(
    *judges: Judge, timeout_seconds: float = 5.0, on_failure: OnFailure = "refuse", refusal_status: RefusalStatus = 409
) -> Callable[[Application], None]:
    """Gives a catalog these judges as hooks, named `judge0` and so on."""

    def prepare(catalog: Application) -> None:
        hooks = [
            ConfiguredHook(f"judge{number}", judge, timeout_seconds, on_failure, refusal_status=refusal_status)
            for number, judge in enumerate(judges)
        ]
        catalog.commands.decision_writer.approval_hooks = ApprovalHooks(hooks, catalog.commands.connection)

    return prepare


class Approver(RestClient):
    """The management API beside the catalog's own."""

    def __init__(self, url: str, warehouse: str = "demo") -> None:
        super().__init__(url, warehouse)
        self._management = RestClient(url)
        self._management._root = "/management/v1"

    def close(self) -> None:
        super().close()
        self._management.close()

    def manage(self, method: str, path: str, body: Any = None, *, key: object = None) -> RestResponse:
        """`path` follows `/management/v1`."""
        return self._management.call_root(method, path, body, key=key)

    def approve(self, proposal_id: str, *, key: object = None) -> RestResponse:
        return self.manage("POST", f"/proposals/{proposal_id}/approve", key=key)

    def reject(self, proposal_id: str, reason: str = "not now", *, key: object = None) -> RestResponse:
        return self.manage("POST", f"/proposals/{proposal_id}/reject", {"reason": reason}, key=key)

    def proposal(self, proposal_id: str) -> Any:
        response = self.manage("GET", f"/proposals/{proposal_id}")
        assert response.status == 200, response.body
        return response.json

    def proposals(self, query: str = "") -> list[Any]:
        response = self.manage("GET", f"/proposals{query}")
        assert response.status == 200, response.body
        found: list[Any] = response.json["proposals"]
        return found


def held(response: RestResponse) -> str:
    """The proposal of a held change. Checks that the header and the message have the same id."""
    assert response.error == (409, "ChangeHeldException"), response.body
    proposal_id = response.headers["icecore-proposal"]
    assert proposal_id in response.message
    return proposal_id
