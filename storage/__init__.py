"""Object stores, metadata files, and the rules for locations. It depends on `domain` only."""
