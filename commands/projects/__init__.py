"""Commands on projects."""
