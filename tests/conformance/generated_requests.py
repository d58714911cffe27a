"""Valid and invalid requests generated from an OpenAPI document, and what every response must be."""

from collections.abc import Callable
from typing import Any

import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

CASES_PER_OPERATION_MIN = 20
SECONDS_PER_CASE_MAX = 20

Aim = Callable[[Any, Any], Any]
"""Changes a case so that its names mostly exist: called with the case and Hypothesis's `draw`."""


def check_error_model(response: Any) -> None:
    """A response of 4xx has Iceberg's error model."""
    error = response.json()["error"]
    assert {"message": str, "type": str, "code": int} == {key: type(value) for key, value in error.items()}
    assert response.status_code == error["code"]
    assert error["message"]
    assert "Traceback" not in error["message"]


def send_generated(operation: Any, mode: GenerationMode, base_url: str, aim: Aim, check: Callable[[Any], None]) -> list[int]:
    """Sends the same requests in every run, checks each response, and returns their statuses."""
    statuses: list[int] = []
    session = requests.Session()

    @settings(
        max_examples=CASES_PER_OPERATION_MIN,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def send(data: st.DataObject) -> None:
        case = aim(data.draw(operation.as_strategy(generation_mode=mode)), data.draw)
        response = case.call(base_url=base_url, session=session, timeout=SECONDS_PER_CASE_MAX)
        assert response.status_code < 500, response.text
        assert response.headers["x-request-id"]
        check(response)
        statuses.append(response.status_code)

    send()
    session.close()
    return statuses
