"""The names of settings, fields and parameters whose values are secrets."""

import re

SECRET_NAME = re.compile(
    r"(passw(or)?d|pwd|passphrase|secret|token|credential|authorization|bearer|jwt|cookie|private.?key|access.?key|account.?key|api.?key"
    r"|seed|sas|jaas|dsn|database_url)",
    re.IGNORECASE,
)
"""Names whose values are secrets."""
