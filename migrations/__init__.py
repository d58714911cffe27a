"""The database schema: numbered .sql files that never change, and the newest form of each function."""
