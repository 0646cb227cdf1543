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
    ├── RefreshCancelled                  somebody has cancelled the refresh that was waited for
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

    Examples
    --------
    Catch this one to catch them all; what it carries is the same for each.

    >>> import onlinehash
    >>> try:
    ...     onlinehash.load("nowhere.oh")
    ... except onlinehash.errors.OnlineHashError as error:
    ...     print(type(error).__name__, error.exit_code, error.http_status)
    InvalidInput 2 422
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
    """Data that cannot be used. Nothing was changed.

    Examples
    --------
    >>> from onlinehash import LiveIndex, errors
    >>> index = LiveIndex(n_bits=16)
    >>> try:
    ...     index.add(["a"], [[1.0, float("nan")]])
    ... except errors.InvalidInput as error:
    ...     print(error)
    X contains NaN in row 0; expected finite values, clean or rescale that row.
    >>> len(index)
    0
    """

    exit_code = 2
    http_status = 422


class InvalidType(InvalidInput, TypeError):
    """Values that are no numbers. Nothing was changed.

    Examples
    --------
    >>> from onlinehash import LiveIndex, errors
    >>> try:
    ...     LiveIndex(n_bits=16).add(["a"], [[{"red": 1}, {"red": 2}]])
    ... except errors.InvalidType as error:
    ...     print(error)
    expected numbers for X, got an object: float() argument must be a string or a real number, not 'dict'.
    """


class InvalidParameter(InvalidInput):
    """A parameter outside its rule. Nothing was changed.

    Examples
    --------
    >>> from onlinehash import OnlineHashing, errors
    >>> try:
    ...     OnlineHashing(n_bits=0).fit([[1.0], [2.0]], [0, 1])
    ... except errors.InvalidParameter as error:
    ...     print(error)
    ...     print(error.expected, "|", error.got)
    OnlineHashing expects n_bits to be an integer from 1 to 4096, got 0.
    n_bits to be an integer from 1 to 4096 | 0
    """


class NotIncremental(InvalidInput, AttributeError):
    """A batch method cannot go on learning. Nothing was changed.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import IterativeQuantization, errors
    >>> try:
    ...     IterativeQuantization(n_bits=2).partial_fit(np.eye(4))
    ... except errors.NotIncremental as error:
    ...     print(error.message.partition(";")[0])
    IterativeQuantization is a batch method and cannot continue learning
    """


class NotSupported(InvalidInput, AttributeError):
    """This kind of index cannot do that. Nothing was changed.

    Examples
    --------
    >>> import onlinehash
    >>> from onlinehash import LiveIndex, serve
    >>> with serve.background(LiveIndex(n_bits=16)) as url, onlinehash.connect(url) as index:
    ...     try:
    ...         index.backup("copy")
    ...     except onlinehash.errors.NotSupported:
    ...         print("can back up:", index.supports("backup"))
    can back up: False
    """


class UnknownMethod(OnlineHashError, KeyError):
    """No learner of that name.

    Examples
    --------
    >>> from onlinehash import errors
    >>> from onlinehash.learners import registry
    >>> try:
    ...     registry.find("OnlineHash")
    ... except errors.UnknownMethod as error:
    ...     print(error)
    there is no method 'OnlineHash'; did you mean OnlineHashing? `onlinehash methods` lists all.
    """

    exit_code = 2
    http_status = 404


class UnknownId(OnlineHashError, KeyError):
    """No item of that id. Nothing was changed.

    Examples
    --------
    >>> from onlinehash import LiveIndex, errors
    >>> index = LiveIndex(n_bits=16)
    >>> _ = index.add([1], [[0.5, 2.0]])
    >>> try:
    ...     index.get(9)
    ... except errors.UnknownId as error:
    ...     print(error)
    no item has id 9; ids here are integers.
    """

    exit_code = 2
    http_status = 404


class NotReady(OnlineHashError, ValueError):
    """Asked for codes before there is a hash function.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing, RbfAnchors, errors
    >>> learner = OnlineHashing(n_bits=8, features=RbfAnchors(n_anchors=50)).observe(np.eye(4))
    >>> try:
    ...     learner.encode(np.eye(4))
    ... except errors.NotReady:
    ...     codes = learner.flush().encode(np.eye(4))  # four anchors are enough for now
    >>> codes
    Codes(n=4, n_bits=8)
    """

    exit_code = 3
    http_status = 409


class Diverged(OnlineHashError, ArithmeticError):
    """What a learner learned is not finite any more. A durable index undoes the call that did it.

    Examples
    --------
    A learner cannot be brought back; a durable index goes on as before the call that was refused.

    >>> import numpy as np
    >>> from onlinehash import Encoder, errors
    >>> try:
    ...     Encoder(np.array([[np.inf]]), np.zeros(1), None, 1, 1, "min", 0, "a method")
    ... except errors.Diverged as error:
    ...     print(error.message.partition(",")[0])
    the hash functions of a method are not finite (weights)
    """

    exit_code = 9
    http_status = 422


class FormatError(OnlineHashError, ValueError):
    """A file that is not what it claims to be.

    Examples
    --------
    >>> from pathlib import Path
    >>> import onlinehash
    >>> onlinehash.save(onlinehash.LSH(n_bits=8), "model.oh")
    >>> _ = Path("model.oh").write_bytes(Path("model.oh").read_bytes()[:100])  # a copy that was cut short
    >>> try:
    ...     onlinehash.load("model.oh")
    ... except onlinehash.errors.FormatError as error:
    ...     print(error.message.partition(":")[0])
    model.oh is not an onlinehash file, or it is truncated
    """

    exit_code = 4
    http_status = 422


class StorageError(OnlineHashError, OSError):
    """The disk is full, read-only, or fails. Nothing of the call was kept, unless the message says that it may be.

    Examples
    --------
    >>> from onlinehash import errors
    >>> try:
    ...     raise errors.StorageError("cannot write items: No space left on device; nothing of the call was kept.")
    ... except OSError as error:  # whoever handles errors of the disk handles these
    ...     print(error)
    cannot write items: No space left on device; nothing of the call was kept.
    """

    exit_code = 6
    http_status = 507


class MissingExtra(OnlineHashError, ImportError):
    """An optional dependency is not installed.

    Examples
    --------
    >>> from onlinehash import errors
    >>> print(errors.MissingExtra("the service", "granian", "serve"))
    the service needs granian, which is not installed; run in your clone of onlinehash: pip install '.[serve]'
    """

    exit_code = 5
    http_status = 501

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        # From a clone: no index of packages has onlinehash, and what somebody else puts there would be installed.
        super().__init__(
            f"{purpose} needs {package}, which is not installed; run in your clone of onlinehash: "
            f"pip install '.[{extra}]'"
        )


class RefreshCancelled(OnlineHashError):
    """Somebody has cancelled the refresh that was waited for. The codes are as they were, or older ones.

    Examples
    --------
    >>> import onlinehash
    >>> raise onlinehash.errors.RefreshCancelled("the refresh was cancelled; the codes are as they were.")
    Traceback (most recent call last):
    onlinehash.errors.RefreshCancelled: the refresh was cancelled; the codes are as they were.
    """

    exit_code = 10
    http_status = 409


class ServiceUnavailable(OnlineHashError, ConnectionError):
    """A service cannot be reached, or has no time. What was asked may or may not have been done.

    Examples
    --------
    >>> import onlinehash
    >>> try:
    ...     onlinehash.connect("http://127.0.0.1:9")
    ... except onlinehash.errors.ServiceUnavailable as error:
    ...     print(error.message.partition(" (")[0])
    the service at http://127.0.0.1:9 gave no answer
    """

    exit_code = 7
    http_status = 503


class Unauthorized(OnlineHashError, PermissionError):
    """A service wants another token, or does not allow this. Nothing was changed.

    Examples
    --------
    >>> import onlinehash
    >>> from onlinehash import LiveIndex, serve
    >>> with serve.background(LiveIndex(n_bits=16), token="a-secret") as url:
    ...     try:
    ...         onlinehash.connect(url, token="another").add([1], [[1.0, 2.0]])
    ...     except onlinehash.errors.Unauthorized as error:
    ...         print(error)
    expected the header Authorization: Bearer TOKEN with this service's token, got another.
    """

    exit_code = 8
    http_status = 401
