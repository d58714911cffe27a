"""The database schema: numbered .sql files, append-only, and the functions, each in its newest form."""
