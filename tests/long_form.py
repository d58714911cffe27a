"""Whether this is a run of the long forms of the tests (`make test-long`)."""

import os

LONG = os.environ.get("ICECORE_TEST_LONG") == "1"
