"""The frozen references: what plain aiohttp and psycopg do with the same work. Never changed; a test holds their checksums."""
