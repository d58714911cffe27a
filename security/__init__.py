"""Authentication, authorization and secrets; stands on `domain` alone."""
