"""Checks every location that table or view metadata adds or changes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from typing import Any

from ..domain.errors import BadRequest
from .locations import LOCATION_BYTES_MAX, StorageLocation, check_characters
from .profiles import StorageProfile

PATH_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties that tell writers where files go; the last two are the older names of the first."""

# No character that any rule refuses, and no segment that is empty or begins with a dot.
_PLAIN_BELOW = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9_.=+-]*)+")

_FILE_FIELDS = {
    "snapshots": ("manifest-list",),
    "statistics": ("statistics-path",),
    "partition-statistics": ("statistics-path",),
    "metadata-log": ("metadata-file",),
}


def check_document_locations(
    profile: StorageProfile, before: Mapping[str, Any] | None, after: Mapping[str, Any], *, imported: bool = False
) -> None:
    """Refuse (BadRequest naming the field) a location in `after` that is new against `before` and not permitted.

    `location` and the path properties must be the warehouse's own (`StorageProfile.permit`). Files (manifest lists, v1
    manifests, statistics, metadata-log entries) must lie in the document's location, in one of its path properties' folders,
    or be permitted themselves. Elements shared with `before` by identity are not looked at again; `before=None` checks all.
    `imported`: the document was written elsewhere, so `%` may stand in its texts.
    """
    known = before or {}
    folders = list(_check_folders(profile, known, after, imported))
    for what, text in _changed_files(known, after):
        if _lies_plainly_in(folders, text):
            continue
        location = StorageLocation.parse_structure(text, what=what)
        folder = next((folder for folder in folders if folder.contains(location) and folder != location), None)
        if folder is None:
            profile.permit(text, imported=imported, field=what)
        else:
            check_characters(location.below(folder), text, imported=imported, what=what)


def referenced_files(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The files that a checked document names, but for its metadata log's: each with its field."""
    return _changed_files({}, {**document, "metadata-log": ()})


def _lies_plainly_in(folders: Iterable[StorageLocation], text: str) -> bool:
    """Whether all that `check_document_locations` asks of a file is seen at a glance, as of nearly every one that a writer names."""
    for folder in folders:
        start = len(folder.spelled)
        if text.startswith(folder.spelled) and len(text) - start <= LOCATION_BYTES_MAX and _PLAIN_BELOW.fullmatch(text, start):
            return True
    return False


def _check_folders(
    profile: StorageProfile, before: Mapping[str, Any], after: Mapping[str, Any], imported: bool
) -> Iterator[StorageLocation]:
    """The folders the document may write to, each checked if it changed."""
    yield _folder(profile, "location", before.get("location"), after.get("location"), imported)
    properties_before, properties = before.get("properties") or {}, after.get("properties") or {}
    if not isinstance(properties, dict):
        raise BadRequest("Invalid properties: must be an object")
    for name in PATH_PROPERTIES:
        if name in properties:
            yield _folder(profile, name, properties_before.get(name), properties[name], imported)


def _folder(profile: StorageProfile, what: str, before: object, text: object, imported: bool) -> StorageLocation:
    checked = _text(what, text)
    if before == text:
        return StorageLocation.parse_structure(checked, what=what)
    return profile.permit(checked, imported=imported, field=what)


def _changed_files(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for collection, fields in _FILE_FIELDS.items():
        elements = after.get(collection) or ()
        elements_before = before.get(collection) or ()
        if elements is elements_before:
            continue
        if not isinstance(elements, list | tuple):
            raise BadRequest(f"Invalid {collection}: must be a list")
        # Almost every change appends: then what is new stands behind all that was there.
        if len(elements) >= len(elements_before) and all(map(is_, elements_before, elements)):
            elements, seen = elements[len(elements_before) :], set()
        else:
            seen = {id(element) for element in elements_before}
        for element in elements:
            if id(element) not in seen:
                if not isinstance(element, dict):
                    raise BadRequest(f"Invalid {collection}: must be a list of objects")
                yield from _files_of(collection, element, fields)


def _files_of(collection: str, element: Mapping[str, Any], fields: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for field in fields:
        if element.get(field) is not None:
            what = f"{collection}: {field}"
            yield what, _text(what, element[field])
    # Format v1 may list its manifests in the snapshot itself.
    what, manifests = f"{collection}: manifests", element.get("manifests") or []
    if not isinstance(manifests, list):
        raise BadRequest(f"Invalid {what}: must be a list")
    for manifest in manifests:
        yield what, _text(what, manifest)


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"Invalid {what}: must be a string")
    return value
