"""Settings for every test."""

import logging
import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

examples = 100 if os.environ.get("ONLINEHASH_LONG") else 10
shared = {"max_examples": examples, "deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("here", **shared)
settings.register_profile("ci", derandomize=True, **shared)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# A shell that starts the tests in the background has them ignore Ctrl-C; some are about it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules that are no tests but assert like them: their failures then show the values compared.
CONTRACTS = ("input_contract", "stream_contract", "numeric_contract", "use_contract")
pytest.register_assert_rewrite("tests.support", *(f"tests.contracts.{name}" for name in CONTRACTS))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """`onlinehash serve`, run within a test, redirects what is logged for the rest of its process."""
    loggers = [logging.getLogger(name) for name in ("onlinehash", "uvicorn", "asyncio")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


# ------------------------------------------------------------------ the end of the output


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LeftOut(config))


class LeftOut:
    """Counts the tests that did not run, in whichever process, and ends the output with why and what runs them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._long = 0

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._long += sum(item.get_closest_marker("long") is not None for item in items)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):  # a process of pytest-xdist; what it puts here reaches the first one
            self._config.workeroutput["long"] = self._long

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        told = getattr(node, "workeroutput", {})  # one that was killed told nothing
        self._long = max(self._long, told.get("long", 0))  # all of them collect the same tests

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reports = terminalreporter.stats.get("skipped", [])
        reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
        lines = [f"{count} skipped: {reason}" for reason, count in reasons.most_common()]
        if self._long:
            lines.append(f"{self._long} left out because they take long; `make long` runs them")
        if lines:
            terminalreporter.section("tests that did not run")
            for line in lines:
                terminalreporter.write_line(line)
        self._tell_attempts(terminalreporter)

    @staticmethod
    def _tell_attempts(terminalreporter: pytest.TerminalReporter) -> None:
        """How often faults were tried: what tests have called `tried` in their properties."""
        attempts: Counter[str] = Counter()
        for reports in terminalreporter.stats.values():
            for report in reports:
                if getattr(report, "when", "") == "call":
                    attempts.update(dict(found for name, found in report.user_properties if name == "tried"))
        if attempts:
            terminalreporter.section("faults that were tried")
            for what, n in attempts.most_common():
                terminalreporter.write_line(f"{n:,} {what}")
