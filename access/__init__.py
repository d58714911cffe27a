"""What commands and queries share: principal, authorization, warehouse, and connections to Postgres and object stores."""
