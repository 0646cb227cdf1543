"""Settings for every test."""

import gc
import importlib
import logging
import os
import signal
import stat
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

examples = 100 if os.environ.get("ONLINEHASH_LONG") else 10
shared = {"max_examples": examples, "deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("here", **shared)
settings.register_profile("ci", derandomize=True, **shared)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# A shell that starts the tests in the background has them ignore Ctrl-C; some are about it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Every client of HTTP would read the certificates of all authorities, which takes longer than most tests; what they ask
# is on this machine, and has none.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(HERE)

# Modules that are no tests assert like them: their failures then show the values compared, too.
NAMES = {f"tests.{path.stem}" for path in HERE.iterdir()}
pytest.register_assert_rewrite(*NAMES - sys.modules.keys())


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Blame a leaked socket or file on the test that leaks it, not on the one during which it is collected.

    Warnings are errors, so collecting here fails this test; it is only done where something new is still open.
    """
    before = open_descriptors()
    yield
    if open_descriptors() - before:
        gc.collect()


def open_descriptors() -> set[tuple[int, int]]:
    """The sockets and files that this process has open; the second number tells a reused descriptor from the old."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the listing's own is closed by now
            about = os.fstat(int(name))
            if stat.S_ISSOCK(about.st_mode) or stat.S_ISREG(about.st_mode):  # libraries open pipes of their own
                found.add((int(name), about.st_ino))
    return found


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """`onlinehash serve`, run within a test, redirects what is logged for the rest of its process."""
    loggers = [logging.getLogger(name) for name in ("onlinehash", "uvicorn", "asyncio")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """One server for all tests of a process: each makes a schema or a database of its own."""
    from tests.servers import PostgresServer  # not above, where its assertions would not be rewritten

    with PostgresServer() as server:
        yield server


# ------------------------------------------------------------------ the beginning


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collecting makes millions of objects that stay: nobody looks for garbage among them, now or in a test."""
    gc.disable()
    try:
        import_in_an_order_of_its_own(session)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def import_in_an_order_of_its_own(session: pytest.Session) -> None:
    """Where several processes run all tests, each imports the modules in an order of its own.

    In a fresh clone, most of the time of an import is taken by rewriting assertions, the result of which is cached. In
    this way a process finds in the cache what another one has rewritten, instead of doing the same work beside it.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    modules = sorted(HERE.rglob("test_*.py"))
    first = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in modules[first:] + modules[:first]:
        with suppress(Exception, pytest.skip.Exception):  # collecting imports it again, and tells what is wrong with it
            importlib.import_module(".".join(path.relative_to(HERE.parent).with_suffix("").parts))


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
