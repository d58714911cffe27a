"""Object stores, metadata files and the rules every location passes; stands on `domain` alone."""
