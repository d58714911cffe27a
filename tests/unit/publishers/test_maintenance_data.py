"""The data of events of maintenance."""

from dataclasses import replace

from icecore.domain.events import MaintenanceFinished, MaintenancePlanned
from icecore.publishers.event_data import MaintenanceEvent, WarehouseName
from icecore.publishers.maintenance_data import maintenance_data
from icecore.publishers.references import Path
from tests.unit.publishers.test_cloud_events import NAMESPACE, TABLE, WAREHOUSE, recorded


def test_each_member_of_an_event_is_in_its_place() -> None:
    """The stream is that of the run, not of the table."""
    path = Path(("demo",), ("demo",))
    run = MaintenanceEvent(id=TABLE, warehouse=WarehouseName(id=WAREHOUSE, name="demo"), table_id=NAMESPACE, procedure="expire_snapshots")
    planned = MaintenancePlanned(NAMESPACE, "expire_snapshots", "why", {"snapshots-removed": 9}, True)
    expected = replace(run, reason="why", estimate={"snapshots-removed": 9}, shadow=True)
    assert expected == maintenance_data(recorded("maintenance.planned.v1"), planned, path)
    finished = MaintenanceFinished(NAMESPACE, "expire_snapshots", "failed", {"snapshots-removed": 8}, 3, 70, "because")
    expected = replace(run, outcome="failed", measured={"snapshots-removed": 8}, attempts=3, duration_ms=70, error="because")
    assert expected == maintenance_data(recorded("maintenance.finished.v1"), finished, path)
