"""Commands on tables, and the jobs that do their work outside requests."""
