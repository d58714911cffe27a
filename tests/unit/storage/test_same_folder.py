"""Comparing the folders of warehouses takes linear time and does not block the event loop."""

import asyncio
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

from icecore.storage import same_folder
from icecore.storage.object_store import ObjectStores
from icecore.storage.profiles import LocalProfile, parse_storage_profile
from icecore.storage.same_folder import _CACHED_LEVELS_MAX, COMPARISONS_CONCURRENT_MAX, shared_folders
from icecore.storage.separate_thread import ThreadNotStartedError
from icecore.storage.storage_profile import ALLOWED_LOCATIONS_MAX

PROCESSOR_SECONDS_MAX = 0.4


def profile(directory: Path, *allowed: Path) -> LocalProfile:
    parsed = parse_storage_profile(
        {"type": "local", "directory": str(directory), "allowed-locations": [f"file://{path}" for path in allowed]}
    )
    assert isinstance(parsed, LocalProfile)
    return parsed


def with_many(folder: Path) -> LocalProfile:
    allowed = [folder / "allowed" / str(number) for number in range(ALLOWED_LOCATIONS_MAX)]
    for path in allowed:
        path.mkdir(parents=True)
    return profile(folder / "warehouse", *allowed)


async def test_many_allowed_locations_are_compared_in_time_that_grows_with_their_number(tmp_path: Path) -> None:
    """Ten warehouses with a hundred each."""
    first, *others = [with_many(tmp_path / str(number)) for number in range(10)]
    began = time.process_time()
    assert await shared_folders(first, others) is None
    assert time.process_time() - began < PROCESSOR_SECONDS_MAX


async def test_the_last_of_many_is_found(tmp_path: Path) -> None:
    """Through a link to it, to a parent or to a nested folder, and for folders that do not exist yet."""
    many = with_many(tmp_path / "many")
    last = tmp_path / "many" / "allowed" / str(ALLOWED_LOCATIONS_MAX - 1)
    (last / "below").mkdir()
    for name, target in (("same", last), ("above", tmp_path / "many"), ("below", last / "below")):
        (tmp_path / name).symlink_to(target)
        one = profile(tmp_path / f"one-{name}", tmp_path / name)
        for asked, other in ((one, many), (many, one)):
            found = await shared_folders(asked, [profile(tmp_path / "none"), other])
            assert found is not None
            assert other is found[0]
    (tmp_path / "later").symlink_to(last / "not-there")
    assert await shared_folders(profile(tmp_path / "one", tmp_path / "later" / "x"), [many]) is not None
    assert await shared_folders(many, [profile(tmp_path / "many" / "warehouse" / "x"), many]) is None


async def test_links_are_found_at_any_depth(tmp_path: Path) -> None:
    """What a comparison remembers is limited, and what it finds is not."""
    for levels in (3, 2 * _CACHED_LEVELS_MAX):
        folder, link = tmp_path / f"folder{levels}", tmp_path / f"link{levels}"
        folder.mkdir()
        link.symlink_to(folder)
        below = Path(*map(str, range(levels)))
        assert await shared_folders(profile(folder / below), [profile(tmp_path / "other"), profile(link / below)]) is not None
        assert await shared_folders(profile(folder / below), [profile(folder / "other")]) is None


async def test_a_link_beside_its_target_is_found_by_a_profile_with_both(tmp_path: Path) -> None:
    """By path one contains the other, but at another place: claims of the same file would not overlap."""
    (tmp_path / "warehouse" / "tables").mkdir(parents=True)
    (tmp_path / "warehouse" / "link").symlink_to("tables")
    (tmp_path / "above").symlink_to("warehouse")
    outer = profile(tmp_path / "warehouse")
    for inner, is_shared in (
        (profile(tmp_path / "warehouse" / "link"), True),
        (profile(tmp_path / "warehouse" / "link" / "later"), True),
        (profile(tmp_path / "warehouse" / "tables"), False),
        (profile(tmp_path / "warehouse"), False),
    ):
        assert is_shared == (await shared_folders(outer, [inner]) is not None)
        assert is_shared == (await shared_folders(inner, [outer]) is not None)
    assert await shared_folders(profile(tmp_path / "above"), [profile(tmp_path / "above" / "tables")]) is None


MOUNTS = """
import asyncio, sys
from icecore.storage.profiles import parse_storage_profile
from icecore.storage.same_folder import shared_folders

one, other = (parse_storage_profile({"type": "local", "directory": directory}) for directory in sys.argv[1:])
print(asyncio.run(shared_folders(one, [other])) is not None, asyncio.run(shared_folders(other, [one])) is not None)
"""


CAN_MOUNT = shutil.which("unshare") is not None and subprocess.run(["unshare", "-rm", "true"], check=False).returncode == 0


@pytest.mark.skipif(not CAN_MOUNT, reason="nothing can be mounted")
@pytest.mark.parametrize(
    ("source", "point", "one", "other", "is_shared"),
    [
        ("data", "mounted", "data", "mounted", True),
        ("data", "mounted", "data/later", "mounted/later", True),
        ("data", "mounted", "data/later", "mounted/later/below", True),
        ("data", "mounted", "data/later", "mounted/other", False),
        ("data/part", "mounted", "data", "mounted", True),
        ("data/part", "mounted", "data/other", "mounted", False),
        ("data/part", "own/mounted", "data", "own", True),
        ("data/part", "data/point", "data", "data/point", True),
        ("other", "data/point", "data", "data/point", False),
        ("other", "data/point", "data/part", "data/point", False),
        ("data", "with space", "data/later", "with space/later", True),
    ],
)
def test_a_folder_that_is_mounted_elsewhere_is_found(
    tmp_path: Path, source: str, point: str, one: str, other: str, is_shared: bool
) -> None:
    """Also for folders that do not exist yet, parts of a folder, and mounts inside a warehouse; and nothing else."""
    for folder in ("data/part", "other", source, point):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    asked = [sys.executable, "-c", MOUNTS, tmp_path / one, tmp_path / other]
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", tmp_path / source, tmp_path / point, *asked]
    response = subprocess.run(command, check=True, capture_output=True, text=True)
    assert [str(is_shared)] * 2 == response.stdout.split()


async def test_a_file_system_that_does_not_respond_blocks_no_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For example a mount whose server is unreachable: the comparison times out, the loop continues, threads are not exhausted, and it
    recovers.
    """
    responses = threading.Event()
    identity = same_folder._inode_of

    def wait(folder: tuple[str, ...]) -> object:
        assert responses.wait(60)
        return identity(folder)

    monkeypatch.setattr(same_folder, "_inode_of", wait)
    monkeypatch.setattr(same_folder, "COMPARING_SECONDS_MAX", 0.05)
    one, other = profile(tmp_path / "one"), profile(tmp_path / "other")
    try:
        began = time.monotonic()
        for _ in range(COMPARISONS_CONCURRENT_MAX + 2):
            with pytest.raises(TimeoutError):
                await shared_folders(one, [other])
        assert COMPARISONS_CONCURRENT_MAX == sum(thread.name == "compare-folders" for thread in threading.enumerate())
        assert await asyncio.to_thread(lambda: "the pool is free") == "the pool is free"
        assert time.monotonic() - began < 5
    finally:
        responses.set()
    for thread in threading.enumerate():
        if thread.name == "compare-folders":
            thread.join()
    monkeypatch.setattr(same_folder, "COMPARING_SECONDS_MAX", 5.0)
    assert await shared_folders(one, [other]) is None


async def test_folders_of_one_project_leave_places_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of one project do not respond. Its own next comparison times out, and that of another project does not."""
    responses, hanging = threading.Event(), tmp_path / "hanging"
    identity, project_id = same_folder._inode_of, uuid4()

    def wait(folder: tuple[str, ...]) -> object:
        assert hanging.name not in folder or responses.wait(60)
        return identity(folder)

    monkeypatch.setattr(same_folder, "_inode_of", wait)
    other = profile(tmp_path / "other")
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(same_folder, "COMPARING_SECONDS_MAX", 0.05)
            for _ in range(COMPARISONS_CONCURRENT_MAX + 2):
                with pytest.raises(TimeoutError):
                    await shared_folders(profile(hanging), [other], project_id)
            with pytest.raises(TimeoutError):
                await shared_folders(profile(tmp_path / "one"), [other], project_id)
        assert await shared_folders(profile(tmp_path / "one"), [other], uuid4()) is None
    finally:
        responses.set()
    for thread in threading.enumerate():
        if thread.name == "compare-folders":
            thread.join()
    assert await shared_folders(profile(hanging), [other], project_id) is None


async def test_more_stores_than_are_compared_at_once_are_opened(tmp_path: Path) -> None:
    """They wait for each other briefly."""
    stores = ObjectStores()
    await stores.open(profile(tmp_path / "first"), None)
    names = [str(number // 2) for number in range(6 * COMPARISONS_CONCURRENT_MAX)]
    opened = await asyncio.gather(*(stores.open(profile(tmp_path / name), None) for name in names))
    assert len(set(names)) == len({id(store) for store in opened})


async def test_comparisons_that_fail_leave_room_for_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, other = profile(tmp_path / "one"), profile(tmp_path / "other")

    def fail(folder: tuple[str, ...]) -> object:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as failing:
        failing.setattr(same_folder, "_inode_of", fail)
        for _ in range(COMPARISONS_CONCURRENT_MAX):
            with pytest.raises(RuntimeError, match="a fault of ours"):
                await shared_folders(one, [other])
    assert await shared_folders(one, [other]) is None


async def test_a_thread_that_does_not_start_leaves_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where a container limits the number of its threads."""
    one, other = profile(tmp_path / "one"), profile(tmp_path / "other")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as failing:
        failing.setattr(threading.Thread, "start", refuse)
        for _ in range(COMPARISONS_CONCURRENT_MAX + 1):
            with pytest.raises(ThreadNotStartedError):
                await shared_folders(one, [other])
    assert await shared_folders(one, [other]) is None


async def test_stores_opened_at_once_are_compared_with_each_other(tmp_path: Path) -> None:
    """If two stores with the same folder are opened concurrently, the last one compared is refused."""
    (tmp_path / "one").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    stores = ObjectStores()
    await stores.open(profile(tmp_path / "first"), None)
    opened = await asyncio.gather(*(stores.open(profile(tmp_path / name), None) for name in ("one", "link", "one")), return_exceptions=True)
    refused = [isinstance(each, Exception) for each in opened]
    assert refused in ([False, True, False], [True, False, True])
    assert refused[0] or opened[0] is opened[2]
