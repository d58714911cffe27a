"""The fixture modules every test may use."""

pytest_plugins = [
    "tests.fixtures.oracle",
]
