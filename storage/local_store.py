"""Files of a local directory: written completely or not at all, and never through a symbolic link below the base or an
allowed location.

It uses system calls instead of obstore's local store, because they can refuse links at every step (`O_NOFOLLOW` from folder to folder),
and because small files are much faster.
"""

import asyncio
import errno
import itertools
import os
import stat
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from secrets import token_hex
from typing import TypeVar

from ..domain.byte_pieces import Content, pieces_of
from ..domain.errors import BadRequest, CatalogError
from .file_sync import FileSync
from .folder_cache import FolderCache
from .locations import StorageLocation, invalid_location_error
from .storage_profile import LocalProfile
from .store_errors import METADATA_BYTES_MAX, file_exists, file_not_found, file_too_large, store_unavailable

INLINE_BYTES_MAX = 256 * 1024
"""Files up to this size are read and written on the event loop: switching to a thread takes longer than the page cache."""

LIST_PAGE_FILES = 1_000

SCAN_THREADS_MAX = 4

PUTS_INLINE_MAX = 32
"""How many small files may be in progress and still be written on the event loop: a transaction of a thousand tables would block it."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY_PREFIX = ".icecore-"

_FILE_SYNC = FileSync()
"""Shared by all stores of the process, which are on the same few disks."""
_SCANS = ThreadPoolExecutor(SCAN_THREADS_MAX, thread_name_prefix="folder-scan")
"""For operations that may look up thousands of files. With links that a client has chained, each lookup takes milliseconds, and a mount may
hang: then only other scans wait."""
_NUMBERS = itertools.count()
"""Each store's number in the cache of folders."""

_T = TypeVar("_T")


class LocalStore:
    """`ObjectStore` over the directory of a local profile and its allowed locations.

    fsync -- put_new returns once the file and its parent folders are synced to disk. Without it, the kernel writes them later.
    folder_cache -- the cache that it shares with the other stores of the process; None: it has its own.
    """

    def __init__(self, profile: LocalProfile, *, fsync: bool = True, folder_cache: FolderCache | None = None) -> None:
        self._profile = profile
        self._fsync = fsync
        self._folder_cache = FolderCache() if folder_cache is None else folder_cache
        self._number = next(_NUMBERS)
        self._putting = 0

    async def get(self, location: StorageLocation, *, bytes_max: int = METADATA_BYTES_MAX) -> bytes:
        with self._errors(location):
            file = self._open_file(location)
            try:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode):
                    raise file_not_found(location)
                if status.st_size > bytes_max:
                    raise file_too_large(location, bytes_max)
            except BaseException:
                os.close(file)
                raise
            # The reader closes the file: if the request is cancelled, its thread goes on reading.
            return await _inline_or_in_thread(status.st_size, partial(_read, FileIO(file), status.st_size))

    async def put_new(self, location: StorageLocation, data: Content) -> None:
        with self._errors(location):
            try:
                if len(data) > INLINE_BYTES_MAX:
                    await asyncio.to_thread(self._write_and_sync, location, data)
                    return
                await self._put_small(location, data)
            except FileNotFoundError:
                # Not an error of the client, and a retry creates the folder again.
                raise store_unavailable(location, "its folder was removed during the request") from None
            except NotADirectoryError:
                raise invalid_location_error("location", "leads through a file, which is not a directory", location.text) from None

    async def _put_small(self, location: StorageLocation, data: Content) -> None:
        if self._fsync and self._putting >= PUTS_INLINE_MAX:
            await _FILE_SYNC.in_thread(self._write_and_sync, location, data)
            return
        self._putting += 1
        try:
            file, folder = self._write(location, data, on_loop=True)
            if self._fsync:
                await _FILE_SYNC.sync_in_thread(file, folder)
            else:
                _close(file, folder)
        finally:
            self._putting -= 1

    async def make_table_folders(self, location: StorageLocation) -> None:
        with self._errors(location):
            await asyncio.to_thread(self._make_table_folders, location)

    async def exists(self, location: StorageLocation, *, on_loop: bool = False) -> bool:
        """Whether an engine that opens the path would find a file. Links are followed, as an engine does; nothing is read or written.

        Opening folder by folder to refuse links would double the time of a cached load of a table.
        """
        self._root_of(location)
        if on_loop:
            return self._exists(location)
        return await asyncio.get_running_loop().run_in_executor(_SCANS, self._exists, location)

    def _exists(self, location: StorageLocation) -> bool:
        try:
            return stat.S_ISREG(os.stat("/" + "/".join(location.segments)).st_mode)  # noqa: PTH116 - see FolderCache
        except (FileNotFoundError, NotADirectoryError):
            self._check_root_exists(location)
            return False
        except OSError as error:
            raise _refusal(error, location) from error

    async def check_readable(self) -> None:
        base = self._profile.base
        with self._errors(base):
            await asyncio.to_thread(_list_one, "/" + "/".join(base.segments))

    async def list_files(self, location: StorageLocation) -> AsyncGenerator[list[str], None]:
        self._root_of(location)
        ended = threading.Event()
        files = _files_below("/" + "/".join(location.segments), ended)
        try:
            with self._errors(location):
                while page := await asyncio.get_running_loop().run_in_executor(_SCANS, _next_files, files):
                    yield page
        finally:
            # A thread may still walk through folders that contain no file, and nothing else ends it.
            ended.set()

    async def is_listed(self, location: StorageLocation) -> bool:
        with self._errors(location), self._folder(location, create=False) as (folder, name), os.scandir(folder) as entries:
            return any(entry.name == name for entry in entries)

    async def delete(self, locations: Sequence[StorageLocation]) -> None:
        for location in locations:
            with self._errors(location):
                try:
                    with self._folder(location, create=False) as (folder, name):
                        os.unlink(name, dir_fd=folder)
                except FileNotFoundError:
                    self._check_root_exists(location)
            await asyncio.sleep(0)

    def _root_of(self, location: StorageLocation) -> StorageLocation:
        """The base or the allowed location that contains it. Raises BadRequest if none does."""
        if location == self._profile.base:
            return location
        root = self._profile.root_of(location)
        if root is None:
            raise invalid_location_error("location", "is outside the warehouse", location.text)
        return root

    @contextmanager
    def _folder(self, location: StorageLocation, *, create: bool, on_loop: bool = True) -> Iterator[tuple[int, str]]:
        """The open folder that contains `location`, and the file's name in it. Links below the root are refused at every step.

        on_loop -- whether it runs on the event loop's thread; only that thread may use the folder cache.
        """
        folder_path = "/" + "/".join(location.segments[:-1])
        known = self._folder_cache.find(self._number, folder_path) if on_loop else None
        if known is not None:
            yield known, location.segments[-1]
            return
        root = self._root_of(location)
        root_path = "/" + "/".join(root.segments)
        *segments, name = location.relative_segments(root) or ("",)
        if not name:
            raise invalid_location_error("location", "names a folder, not a file", location.text)
        if create:
            _make_root(root_path, location)
        folder = os.open(root_path, _FOLDER & ~os.O_NOFOLLOW)
        try:
            for segment in segments:
                child = _open_folder(folder, segment, create=create)
                os.close(folder)
                folder = child
            yield folder, name
            if on_loop:
                # The cache is optional. If the process is out of descriptors, the caller must still get what it has opened.
                with suppress(OSError):
                    self._folder_cache.keep(self._number, folder_path, os.dup(folder), levels=len(segments))
        finally:
            os.close(folder)

    def _open_file(self, location: StorageLocation) -> int:
        with self._folder(location, create=False) as (folder, name):
            return os.open(name, _READ, dir_fd=folder)

    def _write_and_sync(self, location: StorageLocation, data: Content) -> None:
        file, folder = self._write(location, data, on_loop=False)
        if self._fsync:
            _FILE_SYNC.sync(file, folder)
        else:
            _close(file, folder)

    def _write(self, location: StorageLocation, data: Content, *, on_loop: bool) -> tuple[int, int]:
        """Writes the file. Returns the open descriptors of the file and of its folder."""
        with self._folder(location, create=True, on_loop=on_loop) as (folder, name):
            temporary = f"{_TEMPORARY_PREFIX}{token_hex(8)}"
            file = os.open(temporary, _CREATE, 0o666, dir_fd=folder)
            try:
                try:
                    for piece in pieces_of(data):
                        rest = memoryview(piece)
                        while rest:
                            rest = rest[os.write(file, rest) :]
                    # Linking never replaces an existing file, and makes the file visible only when it is complete.
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                finally:
                    os.unlink(temporary, dir_fd=folder)
                return file, os.dup(folder)
            except BaseException:
                os.close(file)
                raise

    def _make_table_folders(self, location: StorageLocation) -> None:
        for name in ("data", "metadata"):
            with self._folder(location.child(name, "file"), create=True, on_loop=False):
                pass

    def _check_root_exists(self, location: StorageLocation) -> None:
        """Called when a file is missing. Raises ServiceUnavailable if the warehouse's folder is missing too, as with an unmounted disk."""
        root = "/" + "/".join(self._root_of(location).segments)
        if not os.path.isdir(root):  # noqa: PTH112 - see FolderCache
            raise store_unavailable(location, f"there is no folder {root}")

    @contextmanager
    def _errors(self, location: StorageLocation) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                self._check_root_exists(location)
            raise _refusal(error, location) from error


def _files_below(folder: str, ended: threading.Event) -> Iterator[str]:
    """The files in a folder and below it, without their first slash, until `ended`. Symbolic links are left out."""
    folders = [folder]
    while folders and not ended.is_set():
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path[1:]


def _next_files(files: Iterator[str]) -> list[str]:
    return list(itertools.islice(files, LIST_PAGE_FILES))


def _list_one(directory: str) -> None:
    with os.scandir(directory) as entries:
        next(entries, None)


def _refusal(error: OSError, location: StorageLocation) -> CatalogError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return file_not_found(location)
    if isinstance(error, FileExistsError | IsADirectoryError):
        return file_exists(location)
    if error.errno == errno.ELOOP:
        return invalid_location_error("location", "leads through a symbolic link", location.text)
    if error.errno == errno.ENAMETOOLONG:
        return BadRequest(f"Invalid location: a name in it is longer than the file system allows: {location.text!r}")
    return store_unavailable(location, os.strerror(error.errno or errno.EIO))


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


async def _inline_or_in_thread(size_bytes: int, work: Callable[[], _T]) -> _T:
    return work() if size_bytes <= INLINE_BYTES_MAX else await asyncio.to_thread(work)


def _make_root(path: str, location: StorageLocation) -> None:
    try:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 - descriptors and paths of the os module throughout
    except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise store_unavailable(location, f"the folder {path} cannot be created: {os.strerror(error.errno or errno.EIO)}") from error


def _open_folder(folder: int, segment: str, *, create: bool) -> int:
    while True:
        try:
            return os.open(segment, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            if not create:
                raise
        except NotADirectoryError:
            # With O_DIRECTORY, Linux returns ENOTDIR for a symbolic link too: find out which of the two it is.
            if stat.S_ISLNK(os.stat(segment, dir_fd=folder, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
            raise
        try:
            os.mkdir(segment, 0o777, dir_fd=folder)
        except FileExistsError:
            # Created by another writer, or a broken link: the next iteration finds out.
            continue


def _read(file: FileIO, size_bytes: int) -> bytes:
    pieces = bytearray()
    with file:
        while len(pieces) < size_bytes and (piece := file.read(size_bytes - len(pieces))):
            pieces += piece
    return bytes(pieces)
