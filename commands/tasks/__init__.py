"""Tasks: commands on them, and the record of their attempts."""
