"""The frozen references: the same work with plain aiohttp and psycopg. They never change; a test checks their checksums."""
