"""Commands on tables, and their background jobs."""
