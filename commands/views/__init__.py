"""Commands on views."""
