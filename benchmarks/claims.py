"""The claims in the order of a run. Each is a module of this package with a `run(bench)` that returns its findings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """name -- of its module. over_http -- whether it can be measured on any Iceberg REST server. long_only -- not in the short form."""

    name: str
    text: str
    over_http: bool = False
    long_only: bool = False


CLAIMS = (
    Claim("load_hot", "loadTable, one hot 4 KB table, 64 connections, 1 worker", over_http=True),
    Claim("load_random", "loadTable, random over 10,000 tables, cached, against hot", over_http=True),
    Claim("load_large", "loadTable at 1,000 snapshots, gzip, against 4 KB", over_http=True),
    Claim("two_workers", "reads with 2 workers against 1"),
    Claim("load_uncached", "loadTable without the cache, random over very many tables"),
    Claim("load_after_expiry", "load of a table after 100,000 snapshots came and were expired, against a fresh one", over_http=True),
    Claim("memory", "memory of a worker after loads of 10,000 tables"),
    Claim("commit_distinct", "append commits on distinct tables, 32 clients, beside the reference", over_http=True),
    Claim("local_files_fsync", "append commits with local metadata files synced, against left to the kernel"),
    Claim("commit_shipped_postgres", "append commits on distinct tables, on Debian's Postgres as shipped beside the embedded one"),
    Claim("commit_one_table", "32 writers appending to one table, against one uncontended writer", over_http=True),
    Claim("commit_disjoint", "32 writers whose commits on one table do not conflict, against distinct tables", over_http=True),
    Claim("commit_history", "commit at 10,000 snapshots against 10, one client", over_http=True),
    Claim("commit_beside_large", "small commits while tables of 10,000 snapshots are registered and expired"),
    Claim("worst_bodies", "loads of a hot table while the worst permitted bodies and files are sent"),
    Claim("create_and_list", "createTable with 32 clients; listTables of 100,000 tables, page 1 against page 900"),
    Claim("deletions", "listing 100,000 soft-deleted tables, page 1 against page 900; memory of a purge of 10,000 files"),
    Claim("search", "search among 100,000 tables beside a load by name"),
    Claim("rebuild", "rebuild of the read models from the append benchmark's log"),
    Claim("publishing", "events to NATS and Kafka beside the client libraries' own; commit to event; cost to commits"),
    Claim("approval", "time per commit with an approval plug-in that allows, against none"),
    Claim("library_append", "events appended by the eventsourcing library's own recorder, against ours"),
    Claim("pipeline_ingest", "events landed by Spark on one and two cores, beside reading them without Spark", long_only=True),
    Claim("pipeline_verify", "pipeline verify on one and two cores beside icecore verify", long_only=True),
    Claim("pipeline_plan", "a plan of maintenance for 10,000 tables beside a listing of their manifests", long_only=True),
    Claim("wal_bytes", "WAL per commit, temporal rows against current rows only"),
)
