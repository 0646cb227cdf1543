"""Settings for every test."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

shared = {"max_examples": 25, "deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("here", **shared)
settings.register_profile("ci", derandomize=True, **shared)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# A shell that starts the tests in the background has them ignore Ctrl-C; some are about it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules that are no tests but assert like them: their failures then show the values compared.
CONTRACTS = ("input_contract", "stream_contract", "numeric_contract", "use_contract")
pytest.register_assert_rewrite("tests.support", *(f"tests.contracts.{name}" for name in CONTRACTS))
