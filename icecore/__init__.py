"""The program: settings, the composition root, the command line, the embedded Postgres and the processes."""
