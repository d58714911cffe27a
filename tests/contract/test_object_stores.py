"""One suite for every object store: local files with system calls, S3 with obstore on a real server."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from icecore.domain.byte_pieces import BytePieces, joined
from icecore.domain.errors import AlreadyExists, BadRequest, MissingCredential, NotFound, PayloadTooLarge, ServiceUnavailable
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.environment_credentials import remove_environment_credentials
from icecore.storage.large_documents import DocumentReservation, LargeDocuments
from icecore.storage.local_store import LocalStore
from icecore.storage.locations import StorageLocation
from icecore.storage.metadata_files import metadata_file_location, read_metadata, write_metadata
from icecore.storage.object_store import METADATA_BYTES_MAX, ObjectStores, open_store
from icecore.storage.profiles import LocalProfile, parse_storage_profile
from tests.fixtures.object_stores import files_below

if TYPE_CHECKING:
    from tests.fixtures.object_stores import OddS3Server, OpenedStore

AWKWARD_NAMES = ["with space", "a=b+c", "é", "名前", "~tilde", "(1)", "a&b;c,d", "@", "a:b", "!", "|", "^", "[x]", "x ", ".hidden", "..."]


async def test_what_was_put_is_got(opened_store: OpenedStore) -> None:
    """In folders that did not exist."""
    location = opened_store.profile.base.child("t", "metadata", "00000-a.metadata.json")
    data = bytes(range(256)) * 40
    await opened_store.store.put_new(location, data)
    assert data == await opened_store.store.get(location)


async def test_a_view_is_written_as_its_bytes(opened_store: OpenedStore) -> None:
    """A document is written from a memoryview of the answer that contains it."""
    location = opened_store.profile.base.child("t", "viewed.json")
    await opened_store.store.put_new(location, memoryview(b"[document]")[1:-1])
    assert b"document" == await opened_store.store.get(location)


async def test_pieces_are_written_one_behind_the_other(opened_store: OpenedStore) -> None:
    """A large document is not joined before it is written."""
    location = opened_store.profile.base.child("t", "pieces.json")
    pieces = BytePieces((b"[", bytes(range(256)) * 2_000, memoryview(b"(]")[1:]))
    await opened_store.store.put_new(location, pieces)
    assert joined(pieces) == await opened_store.store.get(location)


async def test_large_and_empty_files_round_trip(opened_store: OpenedStore) -> None:
    """Zero bytes, and more than is processed on the event loop."""
    for name, size_bytes in (("empty", 0), ("large", 3_000_001)):
        location = opened_store.profile.base.child(name)
        data = os.urandom(size_bytes)
        await opened_store.store.put_new(location, data)
        assert data == await opened_store.store.get(location)


@pytest.mark.parametrize("name", AWKWARD_NAMES)
async def test_awkward_names_are_literal(opened_store: OpenedStore, name: str) -> None:
    """Names that the location rules permit are stored literally."""
    location = opened_store.profile.parse_permitted(f"{opened_store.profile.base}/{name}/{name}")
    await opened_store.store.put_new(location, name.encode())
    assert name.encode() == await opened_store.store.get(location)
    assert {str(location)} == files_below(opened_store, opened_store.profile.base)


async def test_the_files_below_a_folder_are_listed_in_pages(opened_store: OpenedStore) -> None:
    """Those in folders too, with their literal names; not those beside it. None below a folder that does not exist."""
    base = opened_store.profile.base
    wanted = {base.child("t", "data", f"{number:04}.parquet") for number in range(5)} | {base.child("t", "m.avro")}
    wanted |= {opened_store.profile.parse_permitted(f"{base}/t/{name}/{name}") for name in AWKWARD_NAMES}
    for location in (*wanted, base.child("t2", "data", "beside.parquet"), base.child("t-beside.parquet")):
        await opened_store.store.put_new(location, b"x")
    pages = [page async for page in opened_store.store.list_files(base.child("t"))]
    assert {"/".join(each.segments) for each in wanted} == {path for page in pages for path in page}
    assert [] == [page async for page in opened_store.store.list_files(base.child("none"))]
    with pytest.raises(BadRequest):
        await anext(opened_store.store.list_files(StorageLocation.parse_structure("s3://elsewhere/t", field="location")))


async def test_links_are_not_listed(local_store: OpenedStore, tmp_path: Path) -> None:
    """Neither to files nor to folders, so that a circle of links has an end. Pages have at most a thousand files."""
    folder = tmp_path / "warehouse" / "t"
    folder.mkdir(parents=True)
    for number in range(1_005):
        (folder / f"{number}").touch()
    (folder / "link").symlink_to(folder / "0")
    (folder / "circle").symlink_to(folder)
    pages = [page async for page in local_store.store.list_files(local_store.profile.base.child("t"))]
    assert [1_000, 5] == [len(page) for page in pages]
    assert {f"{folder}/{number}"[1:] for number in range(1_005)} == {path for page in pages for path in page}


async def test_an_imported_percent_sign_is_literal(opened_store: OpenedStore) -> None:
    """`%20` and a space are two files, because nothing is decoded."""
    encoded = opened_store.profile.parse_permitted(f"{opened_store.profile.base}/a%20b", percent_allowed=True)
    plain = opened_store.profile.parse_permitted(f"{opened_store.profile.base}/a b")
    await opened_store.store.put_new(encoded, b"encoded")
    assert not await opened_store.store.exists(plain)
    await opened_store.store.put_new(plain, b"plain")
    assert b"encoded" == await opened_store.store.get(encoded)
    assert b"plain" == await opened_store.store.get(plain)


async def test_a_missing_file_is_the_sentence_java_says(opened_store: OpenedStore) -> None:
    """Clients and the compatibility kit compare the message."""
    location = opened_store.profile.base.child("t", "gone")
    await opened_store.store.put_new(opened_store.profile.base.child("other"), b"")
    with pytest.raises(NotFound) as refusal:
        await opened_store.store.get(location)
    assert f"Failed to open input stream for file: {location}" == refusal.value.message


async def test_a_file_is_never_replaced(opened_store: OpenedStore) -> None:
    """The second put of a location fails, and the first content stays."""
    location = opened_store.profile.base.child("t", "once")
    await opened_store.store.put_new(location, b"first")
    with pytest.raises(AlreadyExists):
        await opened_store.store.put_new(location, b"second")
    assert b"first" == await opened_store.store.get(location)


async def test_of_many_writers_one_wins(opened_store: OpenedStore) -> None:
    """Twenty concurrent puts of one location: one complete file and nineteen refusals."""
    location = opened_store.profile.base.child("t", "race")
    payloads = [bytes([number]) * 400_000 for number in range(20)]
    outcomes = await asyncio.gather(*(opened_store.store.put_new(location, data) for data in payloads), return_exceptions=True)
    assert 1 == outcomes.count(None)
    assert 19 == sum(isinstance(outcome, AlreadyExists) for outcome in outcomes)
    assert payloads[outcomes.index(None)] == await opened_store.store.get(location)


async def test_a_file_over_the_limit_is_not_read(opened_store: OpenedStore) -> None:
    """The limit is inclusive. A larger file is refused with 413."""
    location = opened_store.profile.base.child("t", "ten")
    await opened_store.store.put_new(location, b"0123456789")
    assert b"0123456789" == await opened_store.store.get(location, bytes_max=10)
    with pytest.raises(PayloadTooLarge):
        await opened_store.store.get(location, bytes_max=9)


async def test_exists_means_a_file(opened_store: OpenedStore) -> None:
    """A folder does not count, nor does a path below a file."""
    location = opened_store.profile.base.child("t", "metadata", "f")
    await opened_store.store.put_new(opened_store.profile.base.child("other"), b"")
    assert not await opened_store.store.exists(location)
    await opened_store.store.put_new(location, b"")
    assert await opened_store.store.exists(location)
    assert not await opened_store.store.exists(opened_store.profile.base.child("t"))
    assert not await opened_store.store.exists(location.child("below"))


async def test_delete_takes_what_is_there(opened_store: OpenedStore) -> None:
    """Missing files are not an error and do not prevent the others from being deleted."""
    base = opened_store.profile.base
    there, other = base.child("t", "there"), base.child("t", "other")
    await opened_store.store.put_new(there, b"")
    await opened_store.store.put_new(other, b"")
    await opened_store.store.delete([base.child("t", "gone"), there, base.child("no", "folder")])
    assert {str(other)} == files_below(opened_store, base)
    await opened_store.store.delete([])


async def test_allowed_locations_are_served(opened_store: OpenedStore) -> None:
    """An allowed location is outside the base (for S3 in another bucket), and is read and written like it."""
    (allowed,) = opened_store.profile.allowed
    location = opened_store.profile.parse_permitted(f"{allowed}/t/f")
    await opened_store.store.put_new(location, b"allowed")
    assert b"allowed" == await opened_store.store.get(location)
    assert {str(location)} == files_below(opened_store, allowed)
    await opened_store.store.delete([location])
    assert not await opened_store.store.exists(location)


async def test_the_store_itself_refuses_what_lies_outside(opened_store: OpenedStore) -> None:
    """Every operation refuses a location outside the warehouse, even if earlier checks missed it."""
    base = opened_store.profile.base
    outside = StorageLocation.parse(f"{str(base).rpartition('/')[0]}/elsewhere/f")
    for operation in (
        opened_store.store.get(outside),
        opened_store.store.put_new(outside, b""),
        opened_store.store.exists(outside),
        opened_store.store.delete([outside]),
    ):
        with pytest.raises(BadRequest, match="outside the warehouse"):
            await operation


@pytest.mark.parametrize(("codec", "magic"), [("none", b"{"), ("gzip", b"\x1f\x8b")])
async def test_metadata_files_round_trip(opened_store: OpenedStore, codec: str, magic: bytes) -> None:
    """The document is the same after a round trip, and compressed exactly if the property says so."""
    document = {"location": "é 🙂", "format-version": 2}
    table = str(opened_store.profile.default_namespace_location(uuid4()))
    location = metadata_file_location(opened_store.profile, table, {"write.metadata.compression-codec": codec}, 3, uuid4())
    await write_metadata(opened_store.store, location, orjson.dumps(document))
    assert (await opened_store.store.get(location)).startswith(magic)
    assert document == await read_metadata(opened_store.store, location, DocumentReservation(LargeDocuments()))


def _descriptors_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class TestLocalFiles:
    """Tests for local files only."""

    async def test_links_out_of_the_warehouse_are_refused(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """A link to a folder anywhere in the path, and a link to a file: neither read, written nor deleted."""
        secret = tmp_path / "secret"
        secret.mkdir()
        (secret / "f").write_bytes(b"secret")
        base = local_store.profile.base
        await local_store.store.put_new(base.child("t", "f"), b"")
        (tmp_path / "warehouse" / "folder").symlink_to(secret)
        (tmp_path / "warehouse" / "t" / "deep").symlink_to("../../secret")
        (tmp_path / "warehouse" / "t" / "file").symlink_to(secret / "f")
        for names in (("folder", "f"), ("t", "deep", "f")):
            location = base.child(*names)
            for operation in (
                local_store.store.get(location),
                local_store.store.put_new(base.child(*names[:-1], "new"), b""),
                local_store.store.put_new(base.child(*names[:-1], "new", "folder", "f"), b""),
                local_store.store.delete([location]),
            ):
                with pytest.raises(BadRequest, match="symbolic link"):
                    await operation
        with pytest.raises(BadRequest, match="symbolic link"):
            await local_store.store.get(base.child("t", "file"))
        assert ["f"] == [entry.name for entry in secret.iterdir()]

    async def test_a_link_inside_is_refused_too(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """Links are refused wherever they point, because two paths to one file would be two locations."""
        base = local_store.profile.base
        await local_store.store.put_new(base.child("t", "f"), b"")
        (tmp_path / "warehouse" / "again").symlink_to("t")
        with pytest.raises(BadRequest, match="symbolic link"):
            await local_store.store.get(base.child("again", "f"))

    async def test_the_directory_itself_may_be_a_link(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """An operator chose it, so it is followed."""
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "warehouse").symlink_to(tmp_path / "elsewhere")
        await local_store.store.put_new(local_store.profile.base.child("f"), b"x")
        assert b"x" == (tmp_path / "elsewhere" / "f").read_bytes()

    async def test_what_an_engine_can_open_is_there(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """An operator may move a table's folder to another disk and link to it. Engines can open its files, so they exist."""
        base = local_store.profile.base
        await local_store.store.put_new(base.child("t", "f"), b"x")
        (tmp_path / "warehouse" / "t").rename(tmp_path / "moved")
        assert not await local_store.store.exists(base.child("t", "f"))
        (tmp_path / "warehouse" / "t").symlink_to(tmp_path / "moved")
        assert await local_store.store.exists(base.child("t", "f"))
        (tmp_path / "warehouse" / "broken").symlink_to("nowhere")
        assert not await local_store.store.exists(base.child("broken"))

    async def test_nothing_is_deleted_without_the_folder(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """A missing file is deleted, but not one of a warehouse whose folder is missing, as with an unmounted disk."""
        location = local_store.profile.base.child("t", "f")
        await local_store.store.put_new(location, b"x")
        (tmp_path / "warehouse").rename(tmp_path / "unmounted")
        with pytest.raises(ServiceUnavailable, match="there is no folder"):
            await local_store.store.delete([location])
        (tmp_path / "unmounted").rename(tmp_path / "warehouse")
        assert await local_store.store.exists(location)
        await local_store.store.delete([location, location])
        assert not await local_store.store.exists(location)

    async def test_rights_follow_the_umask(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """Other programs on the machine read the files: 0644 and 0755 with the usual umask."""
        before = os.umask(0o022)
        try:
            await local_store.store.put_new(local_store.profile.base.child("t", "f"), b"")
        finally:
            os.umask(before)
        assert 0o644 == stat.S_IMODE((tmp_path / "warehouse" / "t" / "f").stat().st_mode)
        assert 0o755 == stat.S_IMODE((tmp_path / "warehouse" / "t").stat().st_mode)

    async def test_folders_of_a_table_are_made_and_links_refused(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """Engines write to `data` and `metadata`. A link in the path would lead out of the warehouse."""
        await local_store.store.make_table_folders(local_store.profile.base.child("a", "t"))
        assert ["data", "metadata"] == sorted(entry.name for entry in (tmp_path / "warehouse" / "a" / "t").iterdir())
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "warehouse" / "link").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(BadRequest, match="symbolic link"):
            await local_store.store.make_table_folders(local_store.profile.base.child("link", "t"))
        assert [] == [*(tmp_path / "elsewhere").iterdir()]

    async def test_nothing_but_the_file_is_left(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """A put, also a refused one, leaves no temporary file and no open descriptor."""
        location = local_store.profile.base.child("t", "f")
        await local_store.store.put_new(location, b"x")
        open_before = _descriptors_open()
        for _ in range(50):
            with pytest.raises(AlreadyExists):
                await local_store.store.put_new(location, b"y")
            with pytest.raises(NotFound):
                await local_store.store.get(location.child("below"))
            await local_store.store.get(location)
            await local_store.store.exists(location)
        assert open_before == _descriptors_open()
        assert ["f"] == [entry.name for entry in (tmp_path / "warehouse" / "t").iterdir()]

    async def test_a_pipe_does_not_hang_the_server(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """Opening a pipe would wait for its writer, so a file that is not regular counts as missing."""
        (tmp_path / "warehouse").mkdir()
        os.mkfifo(tmp_path / "warehouse" / "pipe")
        async with asyncio.timeout(5):
            with pytest.raises(NotFound):
                await local_store.store.get(local_store.profile.base.child("pipe"))

    async def test_a_name_too_long_for_the_file_system_is_a_bad_request(self, local_store: OpenedStore) -> None:
        """The name complies with the location rules but is too long for the file system."""
        with pytest.raises(BadRequest, match="longer than the file system allows"):
            await local_store.store.put_new(local_store.profile.base.child("x" * 300), b"")

    @pytest.mark.parametrize("folder", ["/proc/lake", "/dev/null/lake"])
    async def test_a_folder_that_cannot_be_created_is_named(self, folder: str) -> None:
        """Nothing can be created in /proc, and nothing below a file."""
        profile = parse_storage_profile({"type": "local", "directory": folder})
        assert isinstance(profile, LocalProfile)
        with pytest.raises(ServiceUnavailable, match=f"the folder {folder} cannot be created"):
            await LocalStore(profile).put_new(profile.base.child("t", "f"), b"x")

    async def test_a_new_file_below_a_file_is_refused(self, local_store: OpenedStore) -> None:
        """It is the client's error, and not a missing file."""
        base = local_store.profile.base
        await local_store.store.put_new(base.child("t"), b"x")
        with pytest.raises(BadRequest, match="leads through a file"):
            await LocalStore(_local(local_store)).put_new(base.child("t", "f"), b"x")

    async def test_out_of_descriptors_for_the_cache_the_file_is_written(
        self, local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        location = local_store.profile.base.child("t", "f")
        store = LocalStore(_local(local_store))
        dup = os.dup

        def refused(descriptor: int) -> int:
            if sys._getframe(1).f_code.co_name == "_folder":
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return dup(descriptor)

        with monkeypatch.context() as patched:
            patched.setattr(os, "dup", refused)
            await store.put_new(location, b"x")
            assert b"x" == await store.get(location)

    async def test_a_missing_directory_is_not_a_missing_file(self, local_store: OpenedStore, tmp_path: Path) -> None:
        """If a disk is not mounted, the file is not lost, so a load must not say that it is missing."""
        base = local_store.profile.base
        location = base.child("t", "f")
        await local_store.store.put_new(location, b"x")
        (tmp_path / "warehouse").rename(tmp_path / "unmounted")
        for operation in (local_store.store.exists(location), LocalStore(_local(local_store)).get(location)):
            with pytest.raises(ServiceUnavailable, match="there is no folder"):
                await operation


def _local(opened: OpenedStore) -> LocalProfile:
    assert isinstance(opened.profile, LocalProfile)
    return opened.profile


class TestStoreAway:
    """A store that is unreachable, broken, slow or refuses access: 503 within a time limit, without the credential."""

    @pytest.mark.parametrize("status", [400, 403, 500, 503])
    async def test_a_server_that_refuses_is_unavailable(self, odd_store: OpenedStore, odd_s3_server: OddS3Server, status: int) -> None:
        """Whatever the store's reason, nothing was done and the client may retry."""
        odd_s3_server.status = status
        location = odd_store.profile.base.child("f")
        for operation in (odd_store.store.get(location), odd_store.store.put_new(location, b"x"), odd_store.store.exists(location)):
            with pytest.raises(ServiceUnavailable) as refusal:
                await operation
            assert "secret-access-key" not in f"{refusal.value!r} {refusal.value.__cause__!r}"
        assert odd_s3_server.seen

    async def test_a_server_that_is_gone_is_unavailable(self) -> None:
        """No server listens on the port. The answer arrives within the time of the retries."""
        profile = parse_storage_profile(
            {"type": "s3", "bucket": "bucket", "region": "r", "endpoint": "http://127.0.0.1:1", "path-style-access": True}
        )
        store = open_store(profile, None)
        async with asyncio.timeout(15):
            with pytest.raises(ServiceUnavailable):
                await store.get(profile.base.child("f"))

    async def test_a_server_that_hangs_is_unavailable(
        self, odd_store: OpenedStore, odd_s3_server: OddS3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Requests and their retries have a time limit."""
        monkeypatch.setattr("icecore.storage.bucket_store.REQUEST_SECONDS_MAX", 1)
        odd_s3_server.hang()
        async with asyncio.timeout(25):
            with pytest.raises(ServiceUnavailable):
                await odd_store.store.put_new(odd_store.profile.base.child("f"), b"x")

    async def test_a_missing_bucket_is_not_a_missing_file(self, odd_store: OpenedStore) -> None:
        """A put that gets 404 is not the client's fault."""
        with pytest.raises(ServiceUnavailable, match=f"at {odd_store.profile.to_json()['endpoint']} could not .* no such bucket.*: s3://"):
            await odd_store.store.put_new(odd_store.profile.base.child("f"), b"x")

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"endpoint": "http://127.0.0.1:1"}, "the connection was refused"),
            ({"endpoint": "http://no-such-host.invalid:9000"}, "its host name could not be resolved"),
            ({"endpoint": "http://a_b%:1"}, "its client cannot use the storage profile or credential"),
            ({"endpoint": "http://999.999.1.1:1"}, "its client cannot use the storage profile or credential"),
            ({"region": "mars 1\n", "endpoint": None}, "its client cannot use the storage profile or credential"),
        ],
    )
    async def test_the_reason_is_said_in_plain_words(
        self, odd_store: OpenedStore, fields: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also for undocumented exceptions of the client."""
        # On an operator's machine a proxy may resolve the name.
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        profile = parse_storage_profile(odd_store.profile.to_json() | fields)
        store = open_store(profile, odd_store.credential)
        for operation in (store.get(profile.base.child("f")), store.put_new(profile.base.child("f"), b"x")):
            with pytest.raises(ServiceUnavailable) as refusal:
                await operation
            at = f" at {fields['endpoint']}" if fields["endpoint"] else ""
            assert f"The object store{at} could not be used ({reason}" in refusal.value.message
            assert "panic" not in refusal.value.message
            assert 1 == refusal.value.retry_after_seconds

    async def test_the_reason_tells_statuses_times_and_tls_apart(
        self, odd_store: OpenedStore, odd_s3_server: OddS3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Operators need to distinguish these causes."""
        monkeypatch.setattr("icecore.storage.bucket_store.REQUEST_SECONDS_MAX", 1)
        location = odd_store.profile.base.child("kind: ConnectionRefused")
        odd_s3_server.status = 503
        with pytest.raises(ServiceUnavailable, match="it responded with status 503"):
            await odd_store.store.exists(location)
        tls = parse_storage_profile(odd_store.profile.to_json() | {"endpoint": odd_s3_server.endpoint.replace("http:", "https:")})
        with pytest.raises(ServiceUnavailable, match="it does not speak TLS"):
            await open_store(tls, None).put_new(location, b"x")
        odd_s3_server.hang()
        with pytest.raises(ServiceUnavailable, match="it did not respond in time"):
            await open_store(odd_store.profile, None).put_new(location, b"x")

    async def test_a_base_that_is_the_whole_bucket_is_readable(self, s3_store: OpenedStore) -> None:
        """It has no path for the listing."""
        whole = {name: value for name, value in s3_store.profile.to_json().items() if name != "key-prefix"}
        await open_store(parse_storage_profile(whole), s3_store.credential).check_readable()

    async def test_a_bucket_that_is_gone_is_not_a_missing_file(self, s3_store: OpenedStore) -> None:
        """Both result in 404 for a get. Only the store's response tells which it is."""
        profile = parse_storage_profile(s3_store.profile.to_json() | {"bucket": "nobody-made-it"})
        with pytest.raises(ServiceUnavailable, match="there is no such bucket"):
            await open_store(profile, s3_store.credential).get(profile.base.child("f"))

    async def test_a_giant_is_refused_by_its_announced_length(self, odd_store: OpenedStore, odd_s3_server: OddS3Server) -> None:
        """The content of an object beyond the limit is not read."""
        odd_s3_server.status, odd_s3_server.content_length = 200, METADATA_BYTES_MAX + 1
        with pytest.raises(PayloadTooLarge):
            await odd_store.store.get(odd_store.profile.base.child("f"))


class TestCredentials:
    """A store is opened only with the warehouse's credential, not with the machine's."""

    HOSTILE: ClassVar[dict[str, str]] = {
        "AWS_ACCESS_KEY_ID": "ambient-key",
        "AWS_SECRET_ACCESS_KEY": "ambient-secret",
        "AWS_SESSION_TOKEN": "ambient-token",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        "AWS_REGION": "ambient-region",
        "AWS_DEFAULT_REGION": "ambient-region",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_S3_EXPRESS": "true",
        "AWS_CONDITIONAL_PUT": "disabled",
        "AWS_UNSIGNED_PAYLOAD": "true",
        "AWS_REQUEST_PAYER": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    }

    @pytest.mark.parametrize("anonymous", [False, True])
    async def test_the_environment_changes_no_request(
        self, odd_s3_server: OddS3Server, odd_store: OpenedStore, monkeypatch: pytest.MonkeyPatch, anonymous: bool
    ) -> None:
        """Keys, tokens, addresses and switches of the environment affect neither signed nor anonymous requests."""
        for name, value in self.HOSTILE.items():
            monkeypatch.setenv(name, value)
        store = open_store(odd_store.profile, None if anonymous else odd_store.credential)
        location = odd_store.profile.base.child("t", "f")
        with pytest.raises(NotFound):
            await store.get(location)
        with pytest.raises(ServiceUnavailable):
            await store.put_new(location, b"x")
        assert [("GET", "/bucket/t/f"), ("PUT", "/bucket/t/f")] == [(request.method, request.path) for request in odd_s3_server.seen]
        for request in odd_s3_server.seen:
            text = repr(request.headers)
            assert "ambient" not in text
            assert "x-amz-security-token" not in text
            assert "x-amz-request-payer" not in text
            assert anonymous == ("authorization" not in request.headers)
            if not anonymous:
                assert "Credential=test-access-key-id/" in request.headers["authorization"]
                assert "/mars-1/s3/" in request.headers["authorization"]
                assert "UNSIGNED-PAYLOAD" != request.headers["x-amz-content-sha256"]
        assert "*" == odd_s3_server.seen[1].headers["if-none-match"]

    async def test_google_is_asked_with_the_key_it_was_given(self, odd_s3_server: OddS3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """The URL and the signature are from the key file. A variable with a bucket has no effect."""
        monkeypatch.setenv("GOOGLE_BUCKET", "ambient")
        monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
        private_key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        pem = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        key = {
            "type": "service_account",
            "client_email": "icecore@example.test",
            "private_key_id": "1",
            "private_key": pem,
            "token_uri": f"{odd_s3_server.endpoint}/token",
            "gcs_base_url": odd_s3_server.endpoint,
        }
        profile = parse_storage_profile({"type": "gcs", "bucket": "bucket", "key-prefix": "wh"})
        credential = parse_storage_credential({"type": "gcs", "credential-type": "service-account-key", "key": key})
        assert not await open_store(profile, credential).exists(profile.base.child("f"))
        (request,) = odd_s3_server.seen
        assert ("HEAD", "/bucket/wh%2Ff") == (request.method, request.path)
        assert request.headers["authorization"].startswith("Bearer ")

    def test_the_clouds_variables_can_be_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Other variables are not changed."""
        monkeypatch.setattr(
            os, "environ", {"AWS_SESSION_TOKEN": "x", "AZURE_STORAGE_TOKEN": "x", "GOOGLE_SERVICE_ACCOUNT": "x", "PATH": "p"}
        )
        remove_environment_credentials()
        assert {"PATH": "p"} == os.environ

    async def test_stores_are_kept_by_profile_and_credential(self, odd_store: OpenedStore) -> None:
        """One store per profile and credential. The least recently used one is closed if there are too many."""
        stores = ObjectStores(stores_open_max=2)
        other = parse_storage_credential(
            {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "other", "aws-secret-access-key": "other"}
        )
        first = await stores.open(odd_store.profile, odd_store.credential)
        assert first is await stores.open(parse_storage_profile(odd_store.profile.to_json()), odd_store.credential)
        second = await stores.open(odd_store.profile, other)
        assert first is not second
        assert first is await stores.open(odd_store.profile, odd_store.credential)
        await stores.open(odd_store.profile, None)
        assert first is await stores.open(odd_store.profile, odd_store.credential)
        assert second is not await stores.open(odd_store.profile, other)

    @pytest.mark.parametrize(
        ("profile", "credential"),
        [
            ({"type": "local", "directory": "/tmp/w"}, {"type": "az", "credential-type": "shared-access-key", "key": "a2V5"}),
            ({"type": "gcs", "bucket": "bucket"}, {"type": "az", "credential-type": "shared-access-key", "key": "a2V5"}),
            ({"type": "gcs", "bucket": "bucket"}, None),
            ({"type": "adls", "account-name": "account", "filesystem": "files"}, None),
        ],
    )
    def test_a_credential_of_another_store_is_refused(self, profile: dict[str, str], credential: dict[str, str] | None) -> None:
        """A profile needs a credential of its own type. GCS and ADLS require one, because their clients would otherwise search the machine
        for it.
        """
        with pytest.raises(BadRequest if credential else MissingCredential, match="storage-credential"):
            open_store(parse_storage_profile(profile), parse_storage_credential(credential) if credential else None)
