"""Request bodies: one class each, which parses, refuses unknown fields, and is the source of the OpenAPI schema.

After `parser.read`, the fields of the types `Vector`, `Matrix` and `Points` hold NumPy arrays; msgspec sees lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

if TYPE_CHECKING:
    from numpy import ndarray as Matrix
    from numpy import ndarray as Points
    from numpy import ndarray as Vector
else:
    Vector = Annotated[list[float], Meta(description="One vector.", examples=[[0.1, 0.9]])]
    Matrix = Annotated[list[list[float]], Meta(description="Vectors of one length, a list each.")]
    Points = Annotated[list[float | list[float]], Meta(description="One vector, or several of one length.")]

Text = Annotated[str, Meta(description="A text, if the service has an embedder.", examples=["open a file"])]
Id = int | str
IdList = Annotated[list[Id], Meta(description="All integers of 64 bits, or all strings.")]
#: An item by its id.
ItemId = Annotated[Id, Meta(description="The id of an item.")]
Payload = Annotated[dict[str, Any], Meta(description="A JSON object that is kept with an item.")]
Where = Annotated[dict[str, Any], Meta(description="A filter on payloads.", examples=[{"price": {"<": 5}}])]
DType = Annotated[Literal["float32", "float64"], Meta(description="What the numbers of a JSON body are kept as.")]
# The library refuses what is too small in its own words; here that is only documented.
Whole = Annotated[int, Meta(le=2**63 - 1, extra_json_schema={"minimum": 0})]
Count = Annotated[Whole, Meta(description="How many of the nearest items to return.")]
WithPayloads = Annotated[bool, Meta(description="Whether to return the payloads of the items found.")]
Hex = Annotated[str, Meta(description="A code's bytes in hexadecimal, the lowest bit first in each.", examples=["3f"])]

#: The formats of bodies. The last is this library's own.
JSON = "application/json"
NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"
FORMAT = "application/vnd.onlinehash"

#: Groups of fields, of which a body has exactly one.
Groups = tuple[tuple[str, ...], ...]


class Shape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A body. The class variables say what its fields do not."""

    #: A body to show.
    example: ClassVar[dict[str, Any]] = {}
    #: The fields that are arrays after reading, and how many axes they may have.
    arrays: ClassVar[dict[str, tuple[int, ...]]] = {}
    #: Fields with an entry for each row: columns of an Arrow table, which may be arrays in our format.
    columns: ClassVar[tuple[str, ...]] = ()
    #: Columns that may have several values per row.
    grids: ClassVar[tuple[str, ...]] = ()
    one_of: ClassVar[Groups] = ()
    media: ClassVar[tuple[str, ...]] = (JSON, FORMAT)
    #: The fields that are texts, and where the vectors go that an embedder makes of them.
    embedded: ClassVar[dict[str, str]] = {}
    #: Fields that similar bodies have but this one does not, and the message that says why.
    refused: ClassVar[dict[str, str]] = {}
    #: Whether no body at all means a body without fields.
    may_be_empty: ClassVar[bool] = False


def schema(shape: type[Shape]) -> dict[str, Any]:
    """The JSON Schema of a shape, with its example, as OpenAPI 3.1 takes it."""
    _, parts = msgspec.json.schema_components([shape], ref_template="#/components/schemas/{name}")
    found: dict[str, Any] = parts[shape.__name__] | {"examples": [shape.example]}
    if shape.one_of:
        given = {"not": {"type": "null"}}
        found["oneOf"] = [
            {"required": list(group), "properties": dict.fromkeys(group, given)} for group in shape.one_of
        ]
    return found


# ------------------------------------------------------------------ items


class NewItems(Shape, kw_only=True):
    """Items to add; without ids they are numbered automatically. A text is kept in its payload, as `text`."""

    ids: IdList | None = None
    vectors: Matrix | None = None
    texts: list[Text] | None = None
    payloads: list[Payload | None] | None = None
    dtype: DType = "float32"

    example = {"ids": [1, 2], "vectors": [[0.1, 0.9], [0.8, 0.3]], "payloads": [{"colour": "red"}, None]}
    arrays = {"vectors": (2,)}
    columns = ("ids", "vectors", "texts", "payloads")
    media = (JSON, NPY, ARROW, FORMAT)
    one_of = (("vectors",), ("texts",))
    embedded = {"texts": "vectors"}
    refused = dict.fromkeys(
        ("id", "vector", "text", "payload"),
        "items are added here as lists: ids, vectors or texts, and payloads; POST /v1/items/ID adds one.",
    )


class ChangedItems(Shape, kw_only=True):
    """New vectors or payloads for items; omitted fields stay as they are, and a null payload removes it. A text stands
    for its vector, and is kept in the payload, as `text`."""

    ids: IdList
    vectors: Matrix | None = None
    texts: list[Text] | None = None
    payloads: list[Payload | None] | None = None
    dtype: DType = "float32"

    example = {"ids": [1], "vectors": [[0.2, 0.7]]}
    arrays = {"vectors": (2,)}
    columns = ("ids", "vectors", "texts", "payloads")
    media = (JSON, ARROW, FORMAT)
    embedded = {"texts": "vectors"}
    refused = dict.fromkeys(
        ("id", "vector", "text", "payload"),
        "items are changed here as lists: ids, vectors or texts, and payloads; PATCH /v1/items/ID changes one.",
    )


class NewItem(Shape, kw_only=True):
    """One item to add under the id in the path."""

    vector: Vector | None = None
    text: Text | None = None
    payload: Payload | None = None
    dtype: DType = "float32"

    example = {"vector": [0.1, 0.9], "payload": {"colour": "red"}}
    arrays = {"vector": (1,)}
    one_of = (("vector",), ("text",))
    embedded = {"text": "vector"}


class ChangedItem(Shape, kw_only=True):
    """A new vector or payload for one item; omitted fields stay as they are, and a null payload removes it. A text
    stands for its vector, and is kept in the payload, as `text`."""

    vector: Vector | None = None
    text: Text | None = None
    payload: Payload | UnsetType | None = UNSET
    dtype: DType = "float32"

    example = {"payload": {"colour": "blue"}}
    arrays = {"vector": (1,)}
    embedded = {"text": "vector"}


class Ids(Shape, kw_only=True):
    """Some items."""

    ids: IdList

    example = {"ids": [1, 2]}
    columns = ("ids",)


class WantedItems(Shape, kw_only=True):
    """Items to return, with or without their vectors."""

    ids: IdList
    vectors: Annotated[bool, Meta(description="Whether to return vectors.")] = True

    example = {"ids": [1, 2], "vectors": False}
    columns = ("ids",)


# ------------------------------------------------------------------ searches


class Asked(Shape, kw_only=True):
    """What to search for: vectors, texts, items by their ids, or codes; among all items, or those of a filter."""

    vector: Vector | None = None
    vectors: Matrix | None = None
    text: Text | None = None
    texts: list[Text] | None = None
    id: ItemId | None = None
    ids: IdList | None = None
    code: Hex | None = None
    codes: list[Hex] | None = None
    where: Where | None = None
    payloads: WithPayloads = False
    dtype: DType = "float32"

    arrays = {"vector": (1,), "vectors": (2,)}
    columns = ("vectors", "texts", "ids", "codes")
    media = (JSON, NPY, ARROW, FORMAT)
    one_of = (("vector",), ("vectors",), ("text",), ("texts",), ("id",), ("ids",), ("code",), ("codes",))
    embedded = {"text": "vector", "texts": "vectors"}


class Find(Shape, kw_only=True):
    """Whose nearest items to find (of vectors, or of items by their ids), how many, and among which."""

    vector: Vector | None = None
    vectors: Matrix | None = None
    text: Text | None = None
    texts: list[Text] | None = None
    id: ItemId | None = None
    ids: IdList | None = None
    k: Count = 10
    where: Where | None = None
    payloads: WithPayloads = False
    dtype: DType = "float32"

    example = {"vector": [0.1, 0.9], "k": 3}
    arrays = {"vector": (1,), "vectors": (2,)}
    columns = ("vectors", "texts", "ids")
    media = (JSON, NPY, ARROW, FORMAT)
    one_of = (("vector",), ("vectors",), ("text",), ("texts",), ("id",), ("ids",))
    embedded = {"text": "vector", "texts": "vectors"}
    refused = dict.fromkeys(("code", "codes"), "find compares vectors, not codes; /v1/search finds items by codes.")


class Query(Asked, kw_only=True):
    """What to search for (vectors, items by their ids, or codes), and how many of the nearest items to return."""

    k: Count = 10
    rerank: Annotated[bool, Meta(description="Whether to sort the hits as find would, by their vectors.")] = False

    example = {"vector": [0.1, 0.9], "k": 3}


class Within(Asked, kw_only=True):
    """What to search for, and the largest distance in bits."""

    radius: Annotated[Whole, Meta(description="The largest distance, in bits.")]

    example = {"id": 1, "radius": 2}


class Rerank(Shape, kw_only=True):
    """Hits to sort as find would, by their vectors; for several vectors, one list of hits each."""

    vector: Vector | None = None
    vectors: Matrix | None = None
    text: Text | None = None
    texts: list[Text] | None = None
    ids: Annotated[list[Id | list[Id]], Meta(description="The hits; for several vectors, a list each.")]
    k: Count | None = None
    dtype: DType = "float32"

    example = {"vector": [0.1, 0.9], "ids": [1, 2]}
    arrays = {"vector": (1,), "vectors": (2,)}
    columns = ("vectors", "texts", "ids")
    grids = ("ids",)
    one_of = (("vector",), ("vectors",), ("text",), ("texts",))
    embedded = {"text": "vector", "texts": "vectors"}


class WantedCodes(Shape, kw_only=True):
    """Items or vectors whose codes to return."""

    ids: IdList | None = None
    vectors: Matrix | None = None
    texts: list[Text] | None = None
    dtype: DType = "float32"

    example = {"ids": [1, 2]}
    arrays = {"vectors": (2,)}
    columns = ("ids", "vectors", "texts")
    media = (JSON, ARROW, FORMAT)
    one_of = (("ids",), ("vectors",), ("texts",))
    embedded = {"texts": "vectors"}


class Comparison(Shape, kw_only=True):
    """One query for several methods."""

    id: ItemId | None = None
    vector: Vector | None = None
    text: Text | None = None
    k: Count = 10
    dtype: DType = "float32"

    example = {"id": 1, "k": 5}
    arrays = {"vector": (1,)}
    one_of = (("id",), ("vector",), ("text",))
    embedded = {"text": "vector"}


# ------------------------------------------------------------------ learning


class Lesson(Shape, kw_only=True):
    """Pairs to learn, as vectors, texts or ids, or as texts and ids: one pair, or lists of equal length."""

    a: Points | None = None
    b: Points | None = None
    text_a: Text | list[Text] | None = None
    text_b: Text | list[Text] | None = None
    id_a: ItemId | list[ItemId] | None = None
    id_b: ItemId | list[ItemId] | None = None
    similar: Annotated[bool | int | list[bool | int], Meta(description="true or 1: similar; false, 0 or -1: not.")]
    weight: Annotated[float | list[float], Meta(description="How much a pair counts; 1 if omitted.")] | None = None
    refresh: Annotated[bool, Meta(description="Whether to bring the codes up to date before the answer.")] = False
    dtype: DType = "float32"

    example = {"id_a": 1, "id_b": 2, "similar": True}
    arrays = {"a": (1, 2), "b": (1, 2)}
    columns = ("a", "b", "text_a", "text_b", "id_a", "id_b", "similar", "weight")
    media = (JSON, ARROW, FORMAT)
    one_of = (("a", "b"), ("id_a", "id_b"), ("text_a", "id_b"), ("text_a", "text_b"))
    embedded = {"text_a": "a", "text_b": "b"}


class Labelled(Shape, kw_only=True):
    """Vectors or texts with their classes: a label each, or a 0 or 1 for each class."""

    vectors: Matrix | None = None
    texts: list[Text] | None = None
    y: Annotated[
        list[bool | int | float | str | list[bool | int | float]],
        Meta(description="The label of each point, or a 0 or 1 for each class."),
    ]
    dtype: DType = "float32"

    example = {"vectors": [[0.1, 0.9], [0.8, 0.3]], "y": ["cat", "dog"]}
    arrays = {"vectors": (2,)}
    columns = ("vectors", "texts", "y")
    grids = ("y",)
    media = (JSON, ARROW, FORMAT)
    one_of = (("vectors",), ("texts",))
    embedded = {"texts": "vectors"}


class Clicks(Shape, kw_only=True):
    """The results shown for a query, in order, and which of them were clicked."""

    query: Annotated[Id, Meta(description="The item that was searched for, by its id.")] | None = None
    vector: Vector | None = None
    text: Text | None = None
    shown: Annotated[list[Id], Meta(description="The ids of the results, in the order shown.")]
    clicked: Annotated[list[Id], Meta(description="The ids of those that were clicked.")]
    skip_weight: Annotated[float, Meta(description="How much a result counts that was skipped.")] = 0.5
    position_bias: Annotated[
        float, Meta(description="The exponent by which clicks on later positions count more; 0: all count the same.")
    ] = 0.0
    dtype: DType = "float32"

    example = {"query": 1, "shown": [2, 3], "clicked": [3]}
    arrays = {"vector": (1,)}
    columns = ("shown", "clicked")
    one_of = (("query",), ("vector",), ("text",))
    embedded = {"text": "vector"}


# ------------------------------------------------------------------ commands


class RefreshOrder(Shape, kw_only=True):
    """Bring the codes up to date; with `wait`, before the answer."""

    wait: Annotated[bool, Meta(description="Whether to answer when it is done; otherwise when it has begun.")] = True

    example = {"wait": True}
    may_be_empty = True


class Rollback(Shape, kw_only=True):
    """Return to an earlier encoder: the one with a serial number, or the previous one."""

    serial: Annotated[Whole, Meta(description="The serial number of an encoder that is kept.")] | None = None

    example = {"serial": 1}
    may_be_empty = True


class TeacherOrder(Shape, kw_only=True):
    """Start or pause the simulated teacher, or change its speed."""

    running: Annotated[bool, Meta(description="true starts it, false pauses it.")] | None = None
    pairs_per_second: Annotated[float, Meta(description="Its speed.")] | None = None

    example = {"running": True, "pairs_per_second": 50.0}


SHAPES: tuple[type[Shape], ...] = (
    NewItems,
    ChangedItems,
    NewItem,
    ChangedItem,
    Ids,
    WantedItems,
    Find,
    Query,
    Within,
    Rerank,
    WantedCodes,
    Comparison,
    Lesson,
    Labelled,
    Clicks,
    RefreshOrder,
    Rollback,
    TeacherOrder,
)
