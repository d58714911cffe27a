"""The location policy for documents: changed locations are checked, unchanged ones are not."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icecore.domain.errors import BadRequest
from icecore.storage import location_policy
from icecore.storage.location_policy import check_document_locations
from icecore.storage.locations import LOCATION_BYTES_MAX
from icecore.storage.profiles import parse_storage_profile

PROFILE = parse_storage_profile({"type": "local", "directory": "/data/wh", "allowed-locations": ["file:/imports"]})
# Repeated here, so that a property that the code leaves out is noticed.
PATH_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
LOCATION = "file:/data/wh/t"
DOCUMENT: dict[str, Any] = {"location": LOCATION, "properties": {}, "snapshots": [], "statistics": [], "metadata-log": []}


def test_a_document_of_its_own_passes() -> None:
    """Every kind of file, in the table's folder, in the folder of a path property and in an allowed location."""
    check_document_locations(
        PROFILE,
        None,
        {
            **DOCUMENT,
            "properties": {"write.metadata.path": "file:///data/wh/m", "write.data.path": "file:/imports/d", "owner": "file:/etc"},
            "snapshots": [
                {"manifest-list": f"{LOCATION}/metadata/snap-1.avro"},
                {"manifest-list": "file:/data/wh/m/snap-2.avro"},
                {"manifest-list": "file:///imports/x/snap-3.avro"},
                {"manifests": [f"{LOCATION}/metadata/m1.avro"]},
                {},
            ],
            "statistics": [{"statistics-path": f"{LOCATION}/metadata/s.puffin"}],
            "partition-statistics": [{"statistics-path": f"{LOCATION}/metadata/p.parquet"}],
            "metadata-log": [{"metadata-file": f"{LOCATION}/metadata/00000-x.metadata.json", "timestamp-ms": 1}],
        },
    )


OUTSIDE = "file:/data/victim/f"
CHANGES: dict[str, dict[str, Any]] = {
    "location": {"location": OUTSIDE},
    **{name: {"properties": {name: OUTSIDE}} for name in PATH_PROPERTIES},
    "snapshots: manifest-list": {"snapshots": [{"manifest-list": OUTSIDE}]},
    "snapshots: manifests": {"snapshots": [{"manifests": [f"{LOCATION}/m", OUTSIDE]}]},
    "statistics: statistics-path": {"statistics": [{"statistics-path": OUTSIDE}]},
    "partition-statistics: statistics-path": {"partition-statistics": [{"statistics-path": OUTSIDE}]},
    "metadata-log: metadata-file": {"metadata-log": [{"metadata-file": OUTSIDE}]},
}


@pytest.mark.parametrize("field", CHANGES)
@pytest.mark.parametrize("before", [None, DOCUMENT], ids=["register", "commit"])
def test_each_field_is_refused_by_its_name(field: str, before: dict[str, Any] | None) -> None:
    """CVE-2026-42812 for every field: a change of one field alone is checked."""
    with pytest.raises(BadRequest, match=f"^Invalid {field}: must be below"):
        check_document_locations(PROFILE, before, {**DOCUMENT, **CHANGES[field]})


@pytest.mark.parametrize("field", CHANGES)
def test_what_did_not_change_is_not_asked_again(field: str) -> None:
    """After the profile's locations are reduced, the table's existing files are not checked again."""
    before = {**DOCUMENT, **CHANGES[field]}
    after = dict(before)
    for collection in ("snapshots", "statistics", "partition-statistics", "metadata-log"):
        if collection in after:
            after[collection] = list(after[collection])
    check_document_locations(PROFILE, before, {**after, "last-updated-ms": 2})


def test_an_equal_element_that_is_new_is_checked() -> None:
    """Elements are unchanged only if they are the same objects."""
    before = {**DOCUMENT, "snapshots": [{"manifest-list": OUTSIDE}]}
    with pytest.raises(BadRequest, match="manifest-list"):
        check_document_locations(PROFILE, before, {**before, "snapshots": [dict(before["snapshots"][0])]})


def test_a_new_element_among_old_ones_is_found() -> None:
    """The invalid one is in the middle."""
    old = [{"manifest-list": f"{LOCATION}/{number}"} for number in range(5)]
    after = [*old[:2], {"manifest-list": OUTSIDE}, *old[2:]]
    with pytest.raises(BadRequest, match="victim"):
        check_document_locations(PROFILE, {**DOCUMENT, "snapshots": old}, {**DOCUMENT, "snapshots": after})


def test_the_folder_itself_is_no_file() -> None:
    """A manifest list may not have the table's own location."""
    with pytest.raises(BadRequest):
        check_document_locations(PROFILE, None, {"location": "file:/data/wh/t", "snapshots": [{"manifest-list": "file:/data/wh"}]})


@given(st.text(alphabet="a0._-/%+=*? \n\u200bé", max_size=8))
@example("/" + "a" * LOCATION_BYTES_MAX)
@example("/" + "a" * (LOCATION_BYTES_MAX + 1))
@example("/metadata/snap-1-1-a.avro")
def test_what_passes_at_a_glance_passes_every_rule(below: str) -> None:
    """The fast check never accepts what the full rules refuse."""

    def passes() -> bool:
        try:
            check_document_locations(PROFILE, None, {"location": LOCATION, "snapshots": [{"manifest-list": LOCATION + below}]})
        except BadRequest:
            return False
        return True

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(location_policy, "_is_plainly_below", lambda *_: False)
        by_every_rule = passes()
    assert by_every_rule == passes()


@pytest.mark.parametrize("value", [None, 1, [], {}])
def test_what_is_no_text_is_a_bad_request(value: Any) -> None:
    """A registered file may contain any value."""
    with pytest.raises(BadRequest, match="must be a string"):
        check_document_locations(PROFILE, None, {"location": value})
    with pytest.raises(BadRequest, match="must be a string"):
        check_document_locations(PROFILE, None, {**DOCUMENT, "properties": {"write.data.path": value}})


@pytest.mark.parametrize(
    "broken",
    [
        {"snapshots": ["x"]},
        {"snapshots": {"a": "b"}},
        {"snapshots": [{"manifests": "file:/x"}]},
        {"statistics": 7},
        {"properties": ["x"]},
        {"metadata-log": [None]},
    ],
)
def test_a_document_of_the_wrong_shape_is_a_bad_request(broken: dict[str, Any]) -> None:
    """Not an internal error, whichever code parses the document first."""
    with pytest.raises(BadRequest, match="Invalid"):
        check_document_locations(PROFILE, None, {**DOCUMENT, **broken})


def test_views_pass_the_same_door() -> None:
    """A view has a location and properties, but neither snapshots nor statistics."""
    view = {"location": "file:/data/wh/v", "properties": {"write.metadata.path": "file:/data/wh/m"}, "versions": [], "schemas": []}
    check_document_locations(PROFILE, None, view)
    with pytest.raises(BadRequest, match=r"write\.metadata\.path"):
        check_document_locations(PROFILE, view, {**view, "properties": {"write.metadata.path": "file:/data/v"}})


def test_an_imported_document_may_hold_percent_signs() -> None:
    """Only with `percent_allowed`. Nothing is decoded."""
    document = {**DOCUMENT, "location": "file:/data/wh/a%20b", "snapshots": [{"manifest-list": "file:/data/wh/a%20b/m%3D1"}]}
    with pytest.raises(BadRequest, match="'%'"):
        check_document_locations(PROFILE, None, document)
    check_document_locations(PROFILE, None, document, percent_allowed=True)
    check_document_locations(PROFILE, document, {**document, "snapshots": [{"manifest-list": "file:/data/wh/a%20b/snap.avro"}]})
