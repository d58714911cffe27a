"""The number of locations that a table or view may claim is limited, because every version's row lists them."""

from typing import Any

import pytest

from icecore.domain.claims import LOCATIONS_MAX
from tests.fixtures.rest_client import RestClient, RestResponse, identifier, set_properties, table_path, view_path
from tests.fixtures.shared_server import FreshWarehouse
from tests.integration.test_register import register
from tests.integration.test_view_locations import commit_view, create_view

PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


@pytest.mark.parametrize("changed_by", ["commit", "transaction", "view"])
def test_a_commit_adds_no_location_beyond_the_limit(client: RestClient, warehouse: FreshWarehouse, changed_by: str) -> None:
    """400, because a retry would be refused too. Commits without new locations succeed. Registered again, the table claims only what it
    refers to.
    """

    def change(*updates: dict[str, Any]) -> RestResponse:
        if changed_by == "view":
            return commit_view(client, "t", *updates)
        if changed_by == "commit":
            return client.commit(["a"], "t", *updates)
        change = {"identifier": identifier(["a"], "t"), "requirements": [], "updates": updates}
        return client.call("POST", "/transactions/commit", {"table-changes": [change]})

    def paths(number: int) -> dict[str, Any]:
        return set_properties({name: f"{warehouse.base}/{number}/{name}" for name in PATHS})

    assert 200 == (create_view(client, "t") if changed_by == "view" else client.create_table(["a"], "t")).status
    # The table's own location counts too.
    for number in range((LOCATIONS_MAX - 1) // len(PATHS)):
        assert change(paths(number)).status < 300
    refused = change(paths(100))
    assert (400, "BadRequestException") == refused.error
    assert f"at most {LOCATIONS_MAX} locations" in refused.message
    assert change(set_properties(k="1")).status < 300
    assert change(paths(0)).status < 300
    if changed_by == "view":
        location = client.call("GET", view_path(["a"], "t")).json["metadata-location"]
        assert 204 == client.call("DELETE", view_path(["a"], "t")).status
        again = client.call("POST", "/namespaces/a/register-view", {"name": "t", "metadata-location": location})
    else:
        location = client.call("POST", f"{table_path(['a'], 't')}/unregister").json["metadata-location"]
        again = register(client, "t", location)
    assert 200 == again.status
    assert change(paths(100)).status < 300


def test_a_registration_over_a_table_adds_no_location_beyond_the_limit(client: RestClient, warehouse: FreshWarehouse) -> None:
    """The table's existing claims count."""
    assert 200 == client.create_table(["a"], "source", location=f"{warehouse.base}/source").status
    location = client.call("POST", f"{table_path(['a'], 'source')}/unregister").json["metadata-location"]
    assert 200 == client.create_table(["a"], "t").status
    for number in range(LOCATIONS_MAX - 1):
        assert 200 == client.commit(["a"], "t", set_properties({PATHS[0]: f"{warehouse.base}/{number}"})).status
    refused = register(client, "t", location, overwrite=True)
    assert (400, "BadRequestException") == refused.error
    assert f"at most {LOCATIONS_MAX} locations" in refused.message
