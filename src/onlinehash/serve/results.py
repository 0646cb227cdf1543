"""The schemas of responses, for the OpenAPI document; routes produce the JSON directly."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

Id = int | str


class Answer(Struct, kw_only=True):
    """Every response names the encoder of the codes it is based on."""

    encoder: int | None


class Problem(Struct):
    """An error: its message and, where a value was checked, what was expected and what was got."""

    error: str
    message: str
    expected: str | None
    got: str | None


class Counted(Answer, kw_only=True):
    """How many items there are now."""

    n: int


class Added(Counted, kw_only=True):
    """The ids of new items."""

    ids: list[Id]


class Listed(Counted, kw_only=True):
    """Ids in the order of insertion, and how many there are in all."""

    ids: list[Id]


class Item(Answer, kw_only=True):
    """One item."""

    id: Id
    payload: dict[str, Any] | None
    vector: list[float] = []


class OneOfItems(Struct, kw_only=True):
    """One item among others."""

    id: Id
    payload: dict[str, Any] | None
    vector: list[float] = []


class Items(Answer, kw_only=True):
    """Several items."""

    items: list[OneOfItems]


class RankedBy(Struct, kw_only=True):
    """What hits are sorted by: the `hamming` distance of codes, the `cosine` before the first pair, or the metric
    `learned` from this many pairs."""

    metric: Literal["hamming", "cosine", "learned"]
    pairs: int | None = None


class Found(Answer, kw_only=True):
    """Ids and distances, nearest first; a list of lists for several queries."""

    ranked_by: RankedBy
    ids: list[Id | list[Id]]
    distances: list[float | list[float]]
    payloads: list[Any] = []


class FoundByPicture(Found, kw_only=True):
    """Hits, and the vector of the picture."""

    vector: list[float]


class Encoded(Answer, kw_only=True):
    """Codes as hexadecimal text."""

    codes: list[str]
    n_bits: int
    n_models: int


class Map(Encoded, kw_only=True):
    """A sample of items with their codes and, if the service has a label field, their labels."""

    ids: list[Id]
    labels: list[Any] | None


class Learned(Answer, kw_only=True):
    """What each pair did: its loss before the step, the step (one for each model), the bits whose function changed,
    and how many pairs are kept back until a feature map has its anchors; how many wait for their chunk to fill; and
    from how many `find` has learned, which waits for none."""

    loss: list[float]
    step: list[list[float]]
    bits: list[list[int]]
    pending: list[int]
    waiting: int
    ranking_pairs: int
    n_pairs: int


class LearnedFromClicks(Learned, kw_only=True):
    """What each pair did, and the pairs made from the clicks: query (null for a vector), item, similar, weight."""

    pairs: list[list[Any]]


class Taught(Answer, kw_only=True):
    """How many pairs the learner has seen."""

    n_pairs: int


class Behind(Struct):
    """How far the codes are behind the learner."""

    bits: int
    pairs: int


class Refreshed(Answer, kw_only=True):
    """The serial number of the codes' encoder, and how far the codes are behind the learner."""

    serial: int
    behind: Behind


class Version(Struct):
    """An encoder that is kept."""

    serial: int
    n_pairs: int
    version: int


class Model(Answer, kw_only=True):
    """The learner, its parameters, and the encoders that are kept."""

    method: str
    parameters: dict[str, Any]
    n_bits: int
    n_models: int
    n_features: int
    dtype: str
    fusion: str
    version: int | None
    serial: int
    versions: list[Version]
    n_pairs: int
    policy: str
    paused: bool


class Compared(Struct, kw_only=True):
    """What one method found."""

    name: str
    bits: int
    ids: list[Id]
    distances: list[int]
    learns: bool
    n_pairs: int
    n: int
    map: float | None


class Exact(Struct):
    """The vectors themselves, by their exact cosine."""

    bits: int
    map: float


class ComparedMethods(Answer, kw_only=True):
    """The same query under several methods; `exact` is null if no queries are held out."""

    methods: list[Compared]
    exact: Exact | None


class Teacher(Answer, kw_only=True):
    """The simulated teacher."""

    running: bool
    pairs_per_second: float
    n_pairs: int


class Status(Struct):
    """Whether the service is alive, or ready."""

    status: str
