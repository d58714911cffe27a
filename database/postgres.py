"""The interface of a connection to Postgres for reading and writing read models."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

Connection = AsyncConnection[TupleRow]
