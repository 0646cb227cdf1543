"""Every error a user can meet, in one tree.

    OnlineHashError
    ├── InvalidInput       (ValueError)   data that cannot be used: shape, type, NaN, overflow, labels
    │   ├── InvalidType    (TypeError)    values that are no numbers at all
    │   ├── InvalidParameter              a constructor argument outside its rule
    │   ├── NotIncremental (AttributeError)  `partial_fit` of a batch method; to scikit-learn, it is missing
    │   └── NotSupported   (AttributeError)  a method that this kind of index does not have; `index.supports` tells
    ├── UnknownMethod      (KeyError)     a learner's name that the registry does not hold
    ├── UnknownId          (KeyError)     an id that no item of the index has
    ├── NotReady           (ValueError)   nothing learned yet, or a feature map still collects its anchors
    │   └── NotFitted      (+ scikit-learn's NotFittedError; lives in `features`, as that is heavy)
    ├── Diverged           (ArithmeticError)  a learner's own numbers overflowed; such a learner is never saved
    ├── FormatError        (ValueError)   a file that is truncated, foreign, too new or tampered with
    ├── StorageError       (OSError)      the disk is full, read-only, or fails; the message says what was kept
    ├── MissingExtra       (ImportError)  an optional dependency is absent; the message names the pip line
    ├── ServiceUnavailable (ConnectionError)  a service that cannot be reached, or is too busy to answer
    └── Unauthorized       (PermissionError)  a service that wants another token, or does not allow this

A message says what happened and what to do. Where a value was checked, the error has its parts as fields: `expected`,
`got` and `hint`. `exit_code` is what the command line returns for it; `http_status` is what a service answers.
"""

from __future__ import annotations

import os


class OnlineHashError(Exception):
    """Base of everything this library raises on purpose.

    Parameters
    ----------
    message : str, optional
        Whole sentences. Without it, they are made of the parts: "expected ..., got ...; hint."
    expected, got, hint : str, optional
        What was expected of a value, what was given, and what to do, without a full stop.
    where : str or path-like, optional
        Where the value is, such as a file; it begins the message that is made of the parts.
    """

    exit_code = 1
    http_status = 500
    expected: str | None = None
    got: str | None = None
    hint: str | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        expected: str | None = None,
        got: str | None = None,
        hint: str | None = None,
        where: str | os.PathLike[str] | None = None,
    ) -> None:
        if message is None:
            message = f"expected {expected}, got {got}{'' if hint is None else f'; {hint}'}."
            message = message if where is None else f"{where}: {message}"
        super().__init__(message)
        self.expected, self.got, self.hint = expected, got, hint

    @property
    def message(self) -> str:
        """The message, as `str` gives it."""
        return str(self)

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0])


class InvalidInput(OnlineHashError, ValueError):
    """Data that cannot be used. Nothing was changed."""

    exit_code = 2
    http_status = 422


class InvalidType(InvalidInput, TypeError):
    """Values that are no numbers. Nothing was changed."""


class InvalidParameter(InvalidInput):
    """A parameter outside its rule. Nothing was changed."""


class NotIncremental(InvalidInput, AttributeError):
    """A batch method cannot go on learning. Nothing was changed."""


class NotSupported(InvalidInput, AttributeError):
    """This kind of index cannot do that. Nothing was changed."""


class UnknownMethod(OnlineHashError, KeyError):
    """No learner of that name."""

    exit_code = 2
    http_status = 404


class UnknownId(OnlineHashError, KeyError):
    """No item of that id. Nothing was changed."""

    exit_code = 2
    http_status = 404


class NotReady(OnlineHashError, ValueError):
    """Asked for codes before there is a hash function."""

    exit_code = 3
    http_status = 409


class Diverged(OnlineHashError, ArithmeticError):
    """What a learner learned is not finite any more. A durable index undoes the call that did it."""

    exit_code = 9
    http_status = 422


class FormatError(OnlineHashError, ValueError):
    """A file that is not what it claims to be."""

    exit_code = 4
    http_status = 422


class StorageError(OnlineHashError, OSError):
    """The disk is full, read-only, or fails. Nothing of the call was kept, unless the message says that it may be."""

    exit_code = 6
    http_status = 507


class MissingExtra(OnlineHashError, ImportError):
    """An optional dependency is not installed."""

    exit_code = 5
    http_status = 501

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed; run: pip install 'onlinehash[{extra}]'")


class ServiceUnavailable(OnlineHashError, ConnectionError):
    """A service cannot be reached, or has no time. What was asked may or may not have been done."""

    exit_code = 7
    http_status = 503


class Unauthorized(OnlineHashError, PermissionError):
    """A service wants another token, or does not allow this. Nothing was changed."""

    exit_code = 8
    http_status = 401
