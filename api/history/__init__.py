"""History: the log as clients read it over HTTP, and waiting for what is to come."""
