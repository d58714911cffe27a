"""The modules with fixtures for all tests."""

pytest_plugins = [
    "tests.fixtures.catalog",
    "tests.fixtures.kafka",
    "tests.fixtures.nats",
    "tests.fixtures.object_stores",
    "tests.fixtures.oracle",
    "tests.fixtures.postgres",
    "tests.fixtures.shared_server",
]
