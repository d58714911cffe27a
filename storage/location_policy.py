"""Checks every location that table or view metadata adds or changes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from typing import Any

from ..domain.errors import BadRequest
from .locations import LOCATION_BYTES_MAX, StorageLocation, check_characters
from .profiles import StorageProfile

PATH_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties that set where writers put files. The last two are older names of the first."""

# Matches only characters that every rule permits, and no segment that is empty or begins with a dot.
_PLAIN_BELOW = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9_.=+-]*)+")

_FILE_FIELDS = {
    "snapshots": ("manifest-list",),
    "statistics": ("statistics-path",),
    "partition-statistics": ("statistics-path",),
    "metadata-log": ("metadata-file",),
}


def check_document_locations(
    profile: StorageProfile, before: Mapping[str, Any] | None, after: Mapping[str, Any], *, percent_allowed: bool = False
) -> None:
    """Raises BadRequest, naming the field, if `after` has a location that `before` does not have and that is not permitted.

    `location` and the path properties must be permitted by the warehouse (`StorageProfile.parse_permitted`). Files (manifest lists, v1
    manifests, statistics, metadata-log entries) must be in the document's location, in the folder of one of its path properties,
    or permitted themselves. Elements that are the same objects as in `before` are not checked again; `before=None` checks all.
    `percent_allowed`: the document was written elsewhere, so its locations may contain `%`.
    """
    known = before or {}
    folders = list(_check_folders(profile, known, after, percent_allowed))
    for field, text in _changed_files(known, after):
        if _is_plainly_below(folders, text):
            continue
        location = StorageLocation.parse_structure(text, field=field)
        folder = next((folder for folder in folders if folder.contains(location) and folder != location), None)
        if folder is None:
            profile.parse_permitted(text, percent_allowed=percent_allowed, field=field)
        else:
            check_characters(location.relative_segments(folder), text, percent_allowed=percent_allowed, field=field)


def referenced_files(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The files that a checked document refers to, each with its field, except those of its metadata log."""
    return _changed_files({}, {**document, "metadata-log": ()})


def _is_plainly_below(folders: Iterable[StorageLocation], text: str) -> bool:
    """A fast check that accepts nearly every file that writers name. False: the full rules must be checked."""
    for folder in folders:
        start = len(folder.text)
        if text.startswith(folder.text) and len(text) - start <= LOCATION_BYTES_MAX and _PLAIN_BELOW.fullmatch(text, start):
            return True
    return False


def _check_folders(
    profile: StorageProfile, before: Mapping[str, Any], after: Mapping[str, Any], percent_allowed: bool
) -> Iterator[StorageLocation]:
    """The folders that the document permits writers to use, each checked if it changed."""
    yield _folder(profile, "location", before.get("location"), after.get("location"), percent_allowed)
    properties_before, properties = before.get("properties") or {}, after.get("properties") or {}
    if not isinstance(properties, dict):
        raise BadRequest("Invalid properties: must be an object")
    for name in PATH_PROPERTIES:
        if name in properties:
            yield _folder(profile, name, properties_before.get(name), properties[name], percent_allowed)


def _folder(profile: StorageProfile, field: str, before: object, text: object, percent_allowed: bool) -> StorageLocation:
    checked = _text(field, text)
    if before == text:
        return StorageLocation.parse_structure(checked, field=field)
    return profile.parse_permitted(checked, percent_allowed=percent_allowed, field=field)


def _changed_files(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for collection, fields in _FILE_FIELDS.items():
        elements = after.get(collection) or ()
        elements_before = before.get(collection) or ()
        if elements is elements_before:
            continue
        if not isinstance(elements, list | tuple):
            raise BadRequest(f"Invalid {collection}: must be a list")
        # Almost every change only appends: then the new elements follow all the old ones.
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
    for member in fields:
        if element.get(member) is not None:
            field = f"{collection}: {member}"
            yield field, _text(field, element[member])
    # Format v1 may list its manifests in the snapshot itself.
    field, manifests = f"{collection}: manifests", element.get("manifests") or []
    if not isinstance(manifests, list):
        raise BadRequest(f"Invalid {field}: must be a list")
    for manifest in manifests:
        yield field, _text(field, manifest)


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"Invalid {field}: must be a string")
    return value
