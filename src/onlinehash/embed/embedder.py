"""What an embedder is, how an index recognises the one that made its vectors, and how one is found by its name.

An embedder is an object with `encode(list of texts) -> matrix`, which is what sentence-transformers and model2vec have
already, or with `embed`, as fastembed has it, or any function that does the same. One that takes pictures as well, as
CLIP does, makes vectors of both that can be compared.

Vectors of two models must not meet in one index. So an index keeps, with the name of its embedder, what it makes of a
few fixed texts, and compares that when it is opened. A digest of a model's files would tell less: the same model may
come in other files, and other software around it makes other vectors of the same files.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash import checks
from onlinehash.arraylike import VectorLike, as_array
from onlinehash.embed.lexical import NEWEST, Lexical
from onlinehash.errors import FormatError, InvalidInput, MissingExtra, NotSupported, OnlineHashError
from onlinehash.types import State

if TYPE_CHECKING:
    from PIL.Image import Image

#: What every embedder is tried with: a few kinds of text, in a few scripts.
PROBES = (
    "A small dog sleeps in the sun.",
    "The invoice for March is still unpaid.",
    "def area(radius): return math.pi * radius ** 2",
    "Wo ist der nächste Bahnhof? 最寄りの駅はどこですか。",
)
#: Numbers that are kept of each of these vectors, and the most by which those of one model differ between machines.
NUMBERS, TOLERANCE = 8, 0.02


@runtime_checkable
class Embedder(Protocol):
    """Anything with `encode(texts)` that gives one vector a text.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import LiveIndex, embed
    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[len(text), text.count(" ")] for text in texts], np.float32)
    >>> isinstance(Lengths(), embed.Embedder)
    True
    >>> index = LiveIndex(n_bits=16, embed=Lengths())
    >>> index.add_texts(["a dog", "a long way home"])
    array([0, 1])
    """

    def encode(self, texts: list[str], /) -> VectorLike: ...


class EmbedderFailed(OnlineHashError):
    """An embedder has raised an error, which is the cause of this one."""


Model: TypeAlias = Embedder | Callable[[Sequence[str]], ArrayLike]


class Maker(NamedTuple):
    """The embedder that made the vectors of an index, as the index knows it: by its name and the length of vectors."""

    name: str
    n_features: int

    @classmethod
    def of(cls, stored: State) -> Maker:
        """From what an index keeps, which `Embedding.facts` made; LookupError, TypeError or ValueError if it is not."""
        return cls(str(stored["name"]), int(stored["n_features"]))


class Embedding:
    """An embedder with its name, whose vectors are checked.

    Parameters
    ----------
    model : object with `encode` or `embed`, or callable
        Takes a list of texts, gives a matrix with one row each, or one row after the other. If several threads may call
        it at once, it says how many in an attribute `calls_at_once`, and a service does so.
    name : str, optional
        How messages call it, and what `load` takes; by default that of its class or function.

    Examples
    --------
    >>> from onlinehash.embed import Embedding, Lexical
    >>> Embedding(Lexical()).encode(["a text"]).shape
    (1, 512)
    """

    def __init__(self, model: Model, name: str | None = None) -> None:
        encode = getattr(model, "encode", getattr(model, "embed", model))
        if isinstance(model, type | str) or not callable(encode):
            raise InvalidInput(
                expected="an embedder, an object with encode(texts) or a function",
                got=checks.shown(model),
                hint="embed.load makes one of a name",
            )
        self.model, self._encode = model, encode
        self.name = name or _name_of(model)
        if is_lexical(self.name) and not isinstance(model, Lexical):
            raise InvalidInput(f"the name {self.name!r} is that of Lexical; give this embedder another.")

    @property
    def calls_at_once(self) -> int:
        """How many threads may call it at once: what the model says, or 1."""
        said = getattr(self.model, "calls_at_once", 1)
        if not isinstance(said, int) or said < 1:
            raise InvalidInput(
                expected=f"calls_at_once of the embedder {self.name!r} to be a whole number from 1 on",
                got=checks.shown(said),
            )
        return said

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """One vector a text: a float32 matrix.

        Raises
        ------
        InvalidInput
            If these are no texts, or the embedder does not give a vector of finite numbers for each.
        """
        return self._of_one_length(checked(texts), "text")

    def encode_pictures(self, pictures: Iterable[Image | np.ndarray]) -> np.ndarray:
        """One vector a picture, by a model whose `encode` takes pictures as well as texts, as CLIP's does.

        Parameters
        ----------
        pictures : list of PIL images or arrays
            They reach the model as they are.

        Returns
        -------
        ndarray of shape (n, n_features)
            float32, for `add` and `find` of an index.

        Raises
        ------
        InvalidInput
            If these are no pictures, or the embedder does not give a vector of finite numbers for each, with as many
            values as those of texts; NotSupported of a `Lexical`, which takes texts only.
        EmbedderFailed
            If the model raises an error, as others for texts alone do.

        Examples
        --------
        >>> import numpy as np
        >>> from onlinehash.embed import Embedding
        >>> def brightness(things):  # of texts that say it, and of pictures
        ...     return [[float("dark" in one), float("light" in one)] if isinstance(one, str)
        ...             else [255 - one.mean(), one.mean()] for one in things]
        >>> Embedding(brightness).encode_pictures([np.full((8, 8), 255)])
        array([[  0., 255.]], dtype=float32)
        """
        found = checked_pictures(pictures)
        if isinstance(self.model, Lexical):
            raise NotSupported(f"the embedder {self.name!r} takes texts only; use one that takes both, such as CLIP.")
        return self._of_one_length(found, "picture")

    def _of_one_length(self, asked: list[Any], kind: str) -> np.ndarray:
        if not asked:
            return np.empty((0, self.n_features), np.float32)
        X = self._vectors(asked, kind)
        if X.shape[1] != self.n_features:
            raise self._refused(f"vectors of {X.shape[1]} values, where it gave {self.n_features} before", kind)
        return X

    @property
    def n_features(self) -> int:
        """Values of a vector."""
        return int(self._tried.shape[1])

    @cached_property
    def fingerprint(self) -> list[float]:
        """A few numbers by which its vectors are recognised: fixed projections of what it makes of fixed texts."""
        X: NDArray[np.float64] = self._tried.astype(np.float64)
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
        places, numbers = np.arange(1, X.shape[1] + 1), np.arange(1, NUMBERS + 1)
        directions: NDArray[np.float64] = np.cos(np.outer(places, numbers))
        return np.round(X @ directions, 4).ravel().tolist()

    @property
    def facts(self) -> State:
        """What an index keeps of it."""
        return {"name": self.name, "n_features": self.n_features, "fingerprint": self.fingerprint}

    def check_made(self, stored: State, owner: str) -> None:
        """Refuse to go on with vectors that another embedder made, whose facts these are."""
        try:
            name, n_features = Maker.of(stored)
            theirs = np.asarray(stored["fingerprint"], np.float64)
        except (LookupError, TypeError, ValueError) as error:
            raise FormatError(f"{owner} does not say which embedder made its vectors: {checks.shown(error)}.") from None
        is_same = n_features == self.n_features and theirs.shape == (len(self.fingerprint),)
        if is_same and not theirs.any():  # a model that knows none of the words tried is told by its name alone
            is_same = name == self.name
        if not (is_same and (np.abs(theirs - self.fingerprint) <= TOLERANCE).all()):
            raise InvalidInput(
                f"{owner} holds vectors of the embedder {name!r} ({n_features} values), and "
                f"{self.name!r} ({self.n_features} values) makes others; use the same one, or give the texts an index "
                "of their own."
            )

    @cached_property
    def _tried(self) -> np.ndarray:
        return self._vectors(list(PROBES), "text")

    def _vectors(self, asked: list[Any], kind: str) -> np.ndarray:
        try:
            made = self._encode(asked)
            if isinstance(made, Iterator):
                made = list(made)
        except OnlineHashError:
            raise
        except Exception as error:
            raise EmbedderFailed(f"the embedder {self.name!r} failed: {_said(error)}.") from error
        try:
            X = checks.matrix(as_array(made, "X"), "X", np.dtype(np.float32))
        except (InvalidInput, ValueError, TypeError) as error:
            raise self._refused(f"something else ({checks.shown(error)})", kind) from None
        if len(X) != len(asked) or X.shape[1] == 0:
            raise self._refused(f"an array of shape {X.shape} for {len(asked)} {kind}s", kind)
        return checks.finite(X, f"what the embedder {self.name!r} made")

    def _refused(self, got: str, kind: str) -> InvalidInput:
        return InvalidInput(expected=f"the embedder {self.name!r} to give a vector for each {kind}", got=got)

    def __repr__(self) -> str:
        return f"Embedding({self.name!r})"


def load(name: str) -> Embedding:
    """The embedder of a name, as `onlinehash serve --embed` takes it.

    Parameters
    ----------
    name : str
        `lexical` or `lexical:N` (`Lexical`, vectors of N values; `lexical@1` is its first version),
        `sentence-transformers:MODEL`, or `module:function` for any function, object or class in a module that can be
        imported.

    Returns
    -------
    Embedding

    Raises
    ------
    InvalidInput
        If there is none of this name.
    MissingExtra
        If sentence-transformers is not installed.

    Examples
    --------
    >>> from onlinehash import embed
    >>> embed.load("lexical:256").n_features
    256
    """
    kind, _, what = name.partition(":")
    if is_lexical(name):
        return Embedding(_lexical(name, NEWEST))
    if kind == "sentence-transformers" and what:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtra(f"--embed {name}", "sentence-transformers", "embed") from None
        try:
            return Embedding(SentenceTransformer(what), name)
        except Exception as error:  # whatever it raises for a model that is neither here nor there
            raise InvalidInput(f"sentence-transformers cannot load {what!r}: {checks.shown(error)}.") from None
    if not (kind and what):
        raise InvalidInput(
            expected="an embedder such as lexical, sentence-transformers:NAME or module:function", got=repr(name)
        )
    return Embedding(_imported(name, kind, what), name)


def of(model: Model | Embedding | str) -> Embedding:
    """The embedder that a caller means: by its name, as it is, or checked from now on."""
    if isinstance(model, Embedding):
        return model
    return load(model) if isinstance(model, str) else Embedding(model)


def resumed(given: Embedding | None, stored: State | None, n_features: int, owner: str) -> Embedding | None:
    """The embedder of an index that is opened: the one that is given, if it made the vectors, or else a `Lexical`.

    `stored` are the facts that the index keeps, `n_features` is the length of its vectors (0: it has none). Other
    embedders must be given each time: what a folder says must not decide which code runs.
    """
    ours = Embedding(_lexical(stored["name"], 1)) if stored is not None and is_lexical(stored["name"]) else None
    if given is None:
        given = ours
    elif ours is not None and isinstance(given.model, Lexical) and given.n_features == ours.n_features:
        given = ours  # perhaps of an earlier version, with which the index goes on
    if given is None:
        return None
    if stored is not None:
        given.check_made(stored, owner)
    elif n_features not in (0, given.n_features):
        raise InvalidInput(
            f"{owner} holds vectors of {n_features} values, and the embedder {given.name!r} makes "
            f"{given.n_features}; use the one that made them."
        )
    return given


def checked(texts: Iterable[str]) -> list[str]:
    """Texts as a list of them."""
    if isinstance(texts, Mapping) or hasattr(texts, "columns") or hasattr(texts, "column_names"):
        kind = type(texts).__name__
        raise InvalidInput(expected="a list of texts", got=f"a {kind}", hint="select one column, such as table['text']")
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise InvalidInput(expected="a list of texts", got=checks.shown(texts))
    found = texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)  # Arrow's columns have scalars
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise _no_text(row, text)
    return [str(text) for text in found]  # without NumPy's own kind of them


def _no_text(row: int, found: object) -> InvalidInput:
    shown = checks.shown(found)
    if shown in ("None", "nan", "<NA>"):  # what tables have where a value is missing
        return InvalidInput(f"text {row} is missing ({shown}); leave its row out, or give a text for it.")
    return InvalidInput(expected=f"text {row} to be a string", got=shown)


def checked_pictures(pictures: Iterable[Any]) -> list[Any]:
    """Pictures as a list of them. A path would be embedded as a text, and the rows of a picture as pictures."""
    if isinstance(pictures, str | bytes) or _is_picture(pictures) or not isinstance(pictures, Iterable):
        raise InvalidInput(expected="a list of pictures", got=checks.shown(pictures))
    found = list(pictures)
    for picture in found:
        if not _is_picture(picture):
            raise InvalidInput(
                expected="pictures, as PIL images or arrays",
                got=checks.shown(picture),
                hint="open files by PIL.Image.open",
            )
    return found


def _is_picture(thing: object) -> bool:
    return hasattr(thing, "getpixel") or getattr(thing, "ndim", None) in (2, 3)


def is_lexical(name: str) -> bool:
    """Whether this is the name of a `Lexical`, of any version."""
    return re.fullmatch(r"lexical(@\d+)?", name.partition(":")[0]) is not None


def _lexical(name: str, version: int) -> Lexical:
    """The `Lexical` of a name such as lexical, lexical:N or lexical@VERSION:N, and of a version if that says none."""
    kind, _, number = name.partition(":")
    said = kind.partition("@")[2]
    if (number and not number.isdecimal()) or len(number) > 9 or len(said) > 9:
        raise InvalidInput(f"expected a number of values in {name!r}, such as lexical:512.")
    return Lexical(int(number or 512), int(said or version))


def _imported(name: str, module: str, what: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in what.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"there is no embedder {name!r}: {error}.") from None
    except Exception as error:
        raise InvalidInput(f"the module of the embedder {name!r} cannot be imported: {_said(error)}.") from error
    try:
        return found() if isinstance(found, type) else found
    except Exception as error:
        raise InvalidInput(f"the embedder {name!r} cannot be made: {_said(error)}.") from error


def _said(error: Exception) -> str:
    """The kind of an error of others, and the first line of what it says."""
    first = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _name_of(model: Model) -> str:
    own = getattr(model, "name", None)
    if isinstance(own, str) and own and (isinstance(model, Lexical) or not is_lexical(own)):
        return own
    thing = model if hasattr(model, "__qualname__") else type(model)
    return f"{thing.__module__}:{thing.__qualname__}"
