"""The name and the locations that a new or changed table or view claims, and the refusals if others have them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain.claims import check_location_count
from ...domain.documents import Json
from ...domain.errors import BadRequest, NotFound
from ...domain.identifiers import TabularIdentifier
from ...domain.names import FreeName, ResolvedName, decide_new_name
from ...log.head import log_head
from ...projections import location_claims, names, old_metadata_files
from ...storage.location_policy import PATH_PROPERTIES, referenced_files
from ...storage.locations import StorageLocation


def location_of(warehouse: Warehouse, requested: str | None, namespace_location: str, object_id: UUID) -> str:
    """The location of a new table or view: the client's, if it is permitted; without one, that of the storage layout, a folder
    named by the object's id. A path without a scheme is in the bucket or file system of the warehouse.
    """
    if requested is None:
        return warehouse.profile.default_tabular_location(namespace_location, object_id).text
    if requested.startswith("/"):
        # ClickHouse sends the path in the bucket.
        base = warehouse.profile.base
        requested = f"{base.scheme}://{base.authority}{requested}"
    return warehouse.profile.parse_permitted(requested).text


def location_key(warehouse: Warehouse, metadata: Json) -> str:
    """The key by which the document's location is claimed."""
    location = StorageLocation.parse_structure(metadata["location"], field="location")
    return location.claim_key(warehouse.profile.storage_identity)


def path_keys(warehouse: Warehouse, metadata: Json, before: Json | None = None) -> list[str] | None:
    """The keys by which locations in the document's path properties are claimed, if they are outside its own location; None: none.

    Those that `before` has already are omitted: a table older than this rule may share one with another table, and must stay usable.
    """
    key, known = location_key(warehouse, metadata), before["properties"] if before is not None else {}
    keys: list[str] = []
    for name in PATH_PROPERTIES:
        text = metadata["properties"].get(name)
        if text is not None and text != known.get(name):
            path = StorageLocation.parse_structure(text, field=name).claim_key(warehouse.profile.storage_identity)
            if not path.startswith(key) and path not in keys:
                keys.append(path)
    return keys or None


def keys_of_referenced_files(warehouse: Warehouse, metadata: Json, file_key: str, held: Sequence[str]) -> list[str]:
    """The keys that a registration claims besides `held`, the table's locations: the registered file, and files outside `held`.

    For such a file its folder is claimed, or the file itself if the folder contains the table's location or a root of the warehouse.
    Files in the metadata log are omitted, because old versions are not read. Raises BadRequest beyond LOCATIONS_MAX.
    """
    identity, keys = warehouse.profile.storage_identity, [*held]
    containing_keys = [location_key(warehouse, metadata), *(root.claim_key(identity) for root in warehouse.profile.roots)]
    if not file_key.startswith(tuple(keys)):
        keys.append(file_key)
    for field, text in referenced_files(metadata):
        key = StorageLocation.parse_structure(text, field=field).claim_key(identity)
        if key.startswith(tuple(keys)):
            continue
        folder = key[:-1].rpartition("/")[0] + "/"
        keys.append(key if any(each.startswith(folder) for each in containing_keys) else folder)
        check_location_count(len(set(keys)))
    return keys[len(held) :]


@dataclass(frozen=True, slots=True)
class NewName:
    """The name that a command gives to a new table or view; `staged` as in `decide_new_name`."""

    warehouse: Warehouse
    identifier: TabularIdentifier
    kind: Literal["table", "view"]
    staged: bool = False

    async def look_up(self, connection: Connection) -> FreeName:
        """`find`, then `check`."""
        return self.check(await self.find(connection))

    async def find(self, connection: Connection) -> ResolvedName | None:
        """What the name refers to now; None if the namespace does not exist."""
        return await names.find(connection, self.warehouse.name_lookup, self.identifier.namespace, self.identifier.name)

    def check(self, found: ResolvedName | None) -> FreeName:
        """The name, if it is free. Raises as `decide_new_name`."""
        name_key = self.warehouse.name_lookup.key(self.identifier.name)
        return decide_new_name(found, self.identifier, name_key, self.kind, staged=self.staged)


async def refuse_taken_locations(
    connection: Connection,
    keys: Sequence[str],
    name: NewName | None,
    owner: UUID | None = None,
    refusal: Callable[[str], BadRequest] | None = None,
) -> int:
    """Raises BadRequest if a location overlaps one that an object other than `owner` claims, including tables that are being purged.

    name -- looked up again before that: the object that claimed the location may have taken the name too, which is the better error.
    refusal -- makes the error from the claim; None: `location_taken_error`.
    Returns the position of the log up to which claims were checked.
    """
    position = await log_head(connection)
    taken = await location_claims.first_taken(connection, keys, owner)
    if taken is not None:
        if name is not None:
            await name.look_up(connection)
        raise (refusal or location_taken_error)(taken)
    return position


def _file_taken_error(key: str) -> BadRequest:
    """A mistyped name of a file is taken too, if the folder is a table's."""
    return BadRequest(f"{location_taken_error(key).message} (unregister or drop that first, unless the name of the file is mistyped)")


async def refuse_taken_file(
    connection: Connection, warehouse: Warehouse, file: StorageLocation, name: NewName | None, owner: UUID | None = None
) -> int:
    """Raises if a file to register is in a location of an object other than `owner`, or is about to be deleted.

    Call it before reading the file: in another object's location it may be deleted before the registration is in the log. Returns a
    position as refuse_taken_locations does.
    """
    key = file.claim_key(warehouse.profile.storage_identity)
    position = await refuse_taken_locations(connection, [key], name, owner, refusal=_file_taken_error)
    if await old_metadata_files.is_pending(connection, key):
        raise NotFound(
            f"The metadata file {file.text} is about to be deleted, because a commit removed it from its table's metadata log; register a "
            "newer one"
        )
    return position


def location_taken_error(key: str) -> BadRequest:
    """The error for a location that is claimed already. `key` is the claim: the store's identity, `|`, and the location.

    It is not AlreadyExists, because engines would take that as success of `CREATE TABLE IF NOT EXISTS`.
    """
    location = key.partition("|")[2].removesuffix("/")
    return BadRequest(
        "Location is already taken: it overlaps that of another table, view or namespace, which may be soft-deleted or still being purged:"
        f" {location}"
    )
