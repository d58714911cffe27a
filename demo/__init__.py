"""The demo (`make demo`): PyIceberg and Spark use a temporary catalog, and its events and log are shown."""
