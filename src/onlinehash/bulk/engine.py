"""`Engine`: applies a function to partitions on several workers. Bulk jobs need only its `map`.

An engine continues as long as there is progress. Parts that fail are retried after all others; after `ATTEMPTS` rounds
without progress it gives up and reports the last problem. Errors in the input are reported at once.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from onlinehash.errors import FormatError, InvalidInput, OnlineHashError, ServiceUnavailable, StorageError
from onlinehash.numeric.threads import one_thread
from onlinehash.progress import progress_bar

#: Rounds without progress before the job is given up.
ATTEMPTS = 3

#: Seconds to wait for the other end of an address.
PATIENCE = 10

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Failure:
    """Why a part failed; a final failure is not retried."""

    error: type[OnlineHashError]
    message: str
    is_final: bool = False


class Engine(ABC):
    """Workers. A `with` block starts and stops them, or the connection to them; jobs inside it share them.

    Examples
    --------
    >>> from onlinehash import bulk
    >>> with bulk.engine_of("local://1") as engine:
    ...     sorted(engine.map(len, ["a", "bb", "ccc"], "measuring"))
    [(0, 1), (1, 2), (2, 3)]
    """

    _depth = 0

    def map(self, function: Callable[[P], R], partitions: Sequence[P], doing: str) -> Iterator[tuple[int, R]]:
        """Yield the number and the result of each partition, in the order of completion.

        The function is sent to the workers once, by pickle, and runs on one thread there. It may run more than once
        for a partition if a worker is lost. `doing` is the label of the progress bar.
        """
        left, idle = dict(enumerate(partitions)), 0
        problem = Failure(ServiceUnavailable, "no worker answered")
        with progress_bar(len(partitions)) as show:
            while left:
                n_left = len(left)
                show(len(partitions) - n_left, f"{doing}, {len(partitions) - n_left} of {len(partitions)} parts")
                for number, outcome in self._outcomes(function, dict(left)):
                    if not isinstance(outcome, Failure):
                        del left[number]
                        done = len(partitions) - len(left)
                        show(done, f"{doing}, {done} of {len(partitions)} parts")
                        yield number, outcome
                    elif outcome.is_final:
                        raise outcome.error(outcome.message)
                    else:
                        problem = outcome
                idle = 0 if len(left) < n_left else idle + 1
                if idle == ATTEMPTS:
                    raise problem.error(
                        f"{len(left)} of {len(partitions)} parts failed {ATTEMPTS} times ({problem.message}); fix "
                        "that and run again."
                    )

    @abstractmethod
    def _outcomes(self, function: Callable[[P], R], partitions: Mapping[int, P]) -> Iterator[tuple[int, R | Failure]]:
        """Each partition's number and outcome, as `attempt` gives it; those of a lost worker may be left out."""

    @abstractmethod
    def _begin(self) -> None:
        """Start workers, or connect to them."""

    @abstractmethod
    def _end(self) -> None:
        """Stop what was started."""

    def __enter__(self) -> Self:
        if self._depth == 0:
            self._begin()
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._end()


def attempt(partition: P, function: Callable[[P], R]) -> R | Failure:
    """Runs on a worker. Errors are returned as `Failure`, because not every exception survives pickling."""
    try:
        with one_thread():
            return function(partition)
    except (InvalidInput, FormatError) as error:
        return Failure(type(error), str(error), is_final=True)
    except OSError as error:
        return Failure(StorageError, f"{error.filename}: {error.strerror}" if error.strerror else str(error))
    except Exception as error:
        return Failure(ServiceUnavailable, f"{type(error).__name__}: {error}")


def lost(error: BaseException) -> Failure:
    """The failure of a part whose worker was lost."""
    text = " ".join(str(error).split())
    return Failure(ServiceUnavailable, f"{type(error).__name__}: {text[:200]}")


def cut_off(whom: str) -> ServiceUnavailable:
    """The error for a lost scheduler."""
    return ServiceUnavailable(f"{whom} was lost in the middle of the work; start again.")


def check_address(address: str, what: str) -> None:
    """Check that something listens at `host:port`; the engines themselves wait longer and explain less."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidInput(expected=f"HOST:PORT as the address of {what}", got=repr(address))
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        raise ServiceUnavailable(
            f"cannot connect to {what} at {address} ({error.strerror or error}); start it first."
        ) from None
