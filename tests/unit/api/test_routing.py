"""The table of operations: every base path, with and without a prefix, and refusals."""

import time

import pytest
from aiohttp import web

from icecore.api.api_request import ApiRequest
from icecore.api.operations import OPERATIONS
from icecore.api.routing import Operation, Routes
from icecore.domain.errors import MethodNotAllowed, NotFound


async def respond(request: ApiRequest) -> web.Response:
    return web.Response()


ROUTES = Routes(OPERATIONS)


@pytest.mark.parametrize(
    ("base", "warehouse"), [("/v1", {}), ("/catalog/v1", {}), ("/catalog/w/my%20lake/v1", {"warehouse_or_project": "my%20lake"})], ids=str
)
@pytest.mark.parametrize("prefix", [{}, {"prefix": "demo%407"}])
def test_iceberg_s_operations_are_found_below_every_base_with_a_prefix_and_without(
    base: str, warehouse: dict[str, str], prefix: dict[str, str]
) -> None:
    """Segments stay encoded."""
    path = "/".join((base, *prefix.values(), "namespaces/a%1Fb/tables/c+d"))
    operation, segments = ROUTES.find("GET", path)
    assert ("loadTable", {**warehouse, **prefix, "namespace": "a%1Fb", "table": "c+d"}) == (operation.name, segments)


def test_every_operation_is_found_by_its_own_address() -> None:
    for operation in OPERATIONS:
        found, segments = ROUTES.find(operation.method, operation.path)
        assert operation is found
        assert all(value == f"{{{name}}}" for name, value in segments.items())


def test_the_operations_of_other_areas_have_one_address_each() -> None:
    """They are not advertised by getConfig."""
    for path in ("/catalog/health", "/catalog/management/v1/proposals", "/catalog/history/v1/events", "/v1/proposals"):
        with pytest.raises(NotFound):
            ROUTES.find("GET", path)
    assert 27 == len(ROUTES.endpoints)
    assert all(endpoint.split(" ")[1].startswith("/v1/") for endpoint in ROUTES.endpoints)


def test_which_operations_wait_commit_and_read_by_post() -> None:
    """Waiting operations have no time limit. An unexpected failure of a commit is reported as CommitStateUnknown."""
    assert {"listEvents", "wait"} == {each.name for each in OPERATIONS if each.long_lived}
    validations = {"validateWarehouse", "validateStorageProfile", "validateStorageCredential", "validateStorageAccess"}
    tasks = {"listTasks", "listProjectTasks", "controlProjectTasks", "setTaskLogCleanupConfig"}
    assert {"getToken", "queryEvents", "bootstrap", "searchTabular", "getEndpointStatistics", *validations, *tasks} == {
        each.name for each in OPERATIONS if each.safe and each.method == "POST"
    }
    commits = {"updateTable", "commitTransaction", "replaceView", "approveProposal", "rejectProposal"}
    assert commits == {each.name for each in OPERATIONS if each.commits}


@pytest.mark.parametrize("path", ["", "*", "/", "//", "health", "/v1", "/v1/", "/v1//namespaces", "/history/v1/events/", "/health/x"])
def test_what_is_no_address_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        ROUTES.find("GET", path)


def test_a_wrong_method_names_the_right_ones() -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        ROUTES.find("PATCH", "/management/v1/events/schemas")
    assert ["GET", "HEAD"] == refused.value.args[1]


def test_two_operations_of_one_address_are_refused() -> None:
    """Otherwise the later one would replace the other."""
    taken = Operation("first", "GET", "/catalog/v1/{prefix}/thing", respond, serves_head_method=True)
    for other in (
        Operation("second", "GET", "/catalog/v1/{prefix}/thing", respond),
        Operation("second", "GET", "/v1/thing", respond),
        Operation("second", "HEAD", "/catalog/v1/thing", respond),
        Operation("second", "POST", "/catalog/v1/{warehouse}/thing", respond),
    ):
        with pytest.raises(ValueError, match=r"Two operations|two names"):
            Routes((taken, other))
    Routes((taken, Operation("second", "POST", "/catalog/v1/{prefix}/thing", respond)))


def test_a_segment_of_the_longest_address_ends_at_its_slash() -> None:
    """What follows is not part of the placeholder's value."""
    routes = Routes((Operation("longest", "GET", "/things/{thing}", respond),))
    assert {"thing": "a"} == routes.find("GET", "/things/a")[1]
    for path in ("/things/a/", "/things/a/b", "/things/a/b/c"):
        with pytest.raises(NotFound):
            routes.find("GET", path)


@pytest.mark.parametrize("path", ["/v1" + "/namespaces" * 6_000, "/history/v1" + "/" * 60_000, "/" * 65_000, "/" + "a" * 65_000])
def test_a_long_address_costs_no_more_than_its_length(path: str) -> None:
    """A request line of 64 KiB takes less than a millisecond."""
    began = time.process_time()
    for _ in range(100):
        with pytest.raises(NotFound):
            ROUTES.find("GET", path)
    assert 0.1 > time.process_time() - began
