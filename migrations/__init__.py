"""The database schema: numbered .sql files, append-only, and the loader of named SQL blocks."""
