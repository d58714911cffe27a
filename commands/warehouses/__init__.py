"""Commands on warehouses."""
