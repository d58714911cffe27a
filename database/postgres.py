"""What a connection to Postgres is for whoever reads or writes the read models, without what hands connections on."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

Connection = AsyncConnection[TupleRow]
