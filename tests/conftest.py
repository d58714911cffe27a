"""The modules with fixtures for all tests, and the defaults of random tests."""

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is.
settings.register_profile("icecore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("icecore")

pytest_plugins = [
    "tests.fixtures.catalog",
    "tests.fixtures.kafka",
    "tests.fixtures.nats",
    "tests.fixtures.object_stores",
    "tests.fixtures.oracle",
    "tests.fixtures.postgres",
    "tests.fixtures.shared_server",
]
