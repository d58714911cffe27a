"""A private Postgres that can be crashed, frozen and filled up, behind a proxy whose connections can be cut."""

import asyncio
import os
import random
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from icecore.api.accepting import stop_accepting
from icecore.embedded_postgres.account import Account
from icecore.embedded_postgres.binaries import usable_binaries
from icecore.embedded_postgres.cluster_directories import ClusterDirectories, cluster_directories, server_account
from tests.servers.pgbouncer import role_settings
from tests.servers.processes import free_port

CONNECTIONS_MAX = 200
STANDBY_NAME = "standby"
_START_SECONDS_MAX = 60
_RELAY_BYTES = 65_536
_CONFIGURATION = f"""
listen_addresses = '127.0.0.1'
max_connections = {CONNECTIONS_MAX}
superuser_reserved_connections = 0
shared_buffers = 64MB
max_wal_size = 1GB
timezone = 'UTC'
log_min_messages = panic
"""


class Cluster:
    """One Postgres on a port of loopback. Settings for durability have their defaults."""

    def __init__(self, directories: ClusterDirectories, account: Account, binaries: Path) -> None:
        self._directories = directories
        self._account = account
        self._binaries = binaries
        self.port = free_port()

    @classmethod
    async def made(cls, directory: Path) -> "Cluster":
        account = server_account(directory)
        directories = cluster_directories(directory, account)
        cluster = cls(directories, account, usable_binaries(directories.data, account, None))
        await cluster._run("initdb", "-D", str(directories.data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale")
        with (directories.data / "postgresql.conf").open("a") as configuration:
            configuration.write(_CONFIGURATION)
        directories.make_socket_directory(account)
        await cluster.start()
        return cluster

    async def standby(self, directory: Path) -> "Cluster":
        """A new standby in `directory`, to which this server streams."""
        account = server_account(directory)
        standby = Cluster(cluster_directories(directory, account), account, self._binaries)
        source = make_conninfo("", host="127.0.0.1", port=self.port, user="postgres", application_name=STANDBY_NAME)
        data = str(standby._directories.data)
        await standby._run("pg_basebackup", "-D", data, "-d", source, "--write-recovery-conf", "--checkpoint=fast")
        standby._directories.make_socket_directory(account)
        await standby.start()
        return standby

    async def commit_on_standby(self) -> None:
        """From now on, commits wait until the standby has written them to its disk."""
        async with await psycopg.AsyncConnection.connect(self.dsn("postgres"), autocommit=True) as connection:
            await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY_NAME}'".encode())
            await connection.execute("SELECT pg_reload_conf()")
            async with asyncio.timeout(_START_SECONDS_MAX):
                states: list[tuple[str]] = []
                while states != [("sync",)]:
                    await asyncio.sleep(0.05)
                    states = await (await connection.execute("SELECT sync_state FROM pg_stat_replication")).fetchall()

    async def stop_receiving(self) -> None:
        """Ends the stream from the primary to this standby."""
        async with await psycopg.AsyncConnection.connect(self.dsn("postgres"), autocommit=True) as connection:
            await connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            await connection.execute("SELECT pg_reload_conf()")

    async def promote(self) -> None:
        """Makes a primary of a standby."""
        await self._run("pg_ctl", "promote", "-D", str(self._directories.data), "-w", "-t", str(_START_SECONDS_MAX))

    def kill(self) -> None:
        """kill -9 of every process of the server."""
        for process_id in self._process_ids():
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)

    def dsn(self, database: str, port: int | None = None) -> str:
        return make_conninfo("", host="127.0.0.1", port=port or self.port, user="postgres", dbname=database, sslmode="disable")

    async def start(self) -> None:
        options = f"-c unix_socket_directories='{self._directories.socket}' -c port={self.port}"
        log = str(self._directories.data / "start.log")
        await self._run("pg_ctl", "start", "-D", str(self._directories.data), "-w", "-t", str(_START_SECONDS_MAX), "-l", log, "-o", options)

    async def crash(self) -> None:
        """Kills the server without a checkpoint, similar to a power failure."""
        await self._run("pg_ctl", "stop", "-D", str(self._directories.data), "-m", "immediate", "-w")

    def freeze(self) -> None:
        """Stops every process of the server (SIGSTOP). Connections stay open without responses."""
        for process_id in self._process_ids():
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGSTOP)

    def thaw(self) -> None:
        for process_id in self._process_ids():
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGCONT)

    async def fill_up(self) -> list[psycopg.AsyncConnection[tuple[object, ...]]]:
        """Ends the other sessions and takes every available connection. The caller closes them."""
        taken: list[psycopg.AsyncConnection[tuple[object, ...]]] = []
        with suppress(psycopg.OperationalError):
            while True:
                taken.append(await psycopg.AsyncConnection.connect(self.dsn("postgres"), autocommit=True))
                await taken[0].execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'icecore%'")
        return taken

    async def limit_times(self) -> None:
        """Sets on the role what connections through a pooler cannot set."""
        async with await psycopg.AsyncConnection.connect(self.dsn("postgres"), autocommit=True) as connection:
            for statement in role_settings("postgres"):
                await connection.execute(statement.encode())

    async def copy_database(self, name: str, template: str) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn("postgres"), autocommit=True) as connection:
            create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
            await connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))

    async def create_database(self, name: str) -> None:
        await self.copy_database(name, "template0")

    async def _run(self, program: str, *arguments: str) -> None:
        done = await asyncio.to_thread(self._account.run, [str(self._binaries / program), *arguments], seconds_max=_START_SECONDS_MAX)
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}: {done.stdout} {done.stderr}")

    def _process_ids(self) -> list[int]:
        """The server first, so that it starts no other process meanwhile."""
        server = int((self._directories.data / "postmaster.pid").read_text().split()[0])
        return [server, *children(server)]


def open_directory() -> Path:
    """A folder that every account may enter, because Postgres does not run as root."""
    directory = Path(tempfile.mkdtemp(prefix="icecore-reliability-"))
    directory.chmod(0o755)
    return directory


@asynccontextmanager
async def private_cluster() -> AsyncIterator[Cluster]:
    """A new cluster for the length of the block."""
    directory = open_directory()
    cluster = await Cluster.made(directory)
    try:
        yield cluster
    finally:
        cluster.thaw()
        await cluster.crash()
        shutil.rmtree(directory, ignore_errors=True)


class Line:
    """A proxy between Icecore and Postgres whose connections can be cut: immediately, or after the next request, so that its response is
    lost.
    """

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._losing: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            await stop_accepting(self._server.sockets)
            self._server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, dice: random.Random, share: float) -> None:
        """Cuts a share of the connections immediately."""
        for client in [*self._open]:
            if dice.random() < share:
                self._abort(client)

    def lose_responses(self, dice: random.Random, share: float) -> None:
        """On a share of the connections, discards the next response of Postgres and cuts the connection."""
        self._losing |= {client for client in self._open if dice.random() < share}

    def _abort(self, client: asyncio.StreamWriter) -> None:
        upstream = self._open.pop(client, None)
        client.transport.abort()
        if upstream is not None:
            upstream.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            writer.transport.abort()
            return
        self._open[writer] = upstream_writer
        back = asyncio.create_task(self._responses(upstream_reader, writer))
        try:
            # Writing to an aborted transport raises RuntimeError.
            with suppress(OSError, RuntimeError):
                while request := await reader.read(_RELAY_BYTES):
                    upstream_writer.write(request)
                    await upstream_writer.drain()
        finally:
            self._open.pop(writer, None)
            self._losing.discard(writer)
            back.cancel()
            upstream_writer.close()
            writer.close()

    async def _responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while response := await reader.read(_RELAY_BYTES):
                if writer in self._losing:
                    self._abort(writer)
                    return
                writer.write(response)
                await writer.drain()
        except (OSError, RuntimeError):
            self._abort(writer)
        finally:
            writer.close()


def children(process_id: int) -> list[int]:
    """The child processes of a process that still run."""
    found: list[int] = []
    for listing in Path(f"/proc/{process_id}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in listing.read_text().split()]
    return found
