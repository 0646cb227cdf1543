"""How a picture becomes a vector, and how an item becomes a picture.

Pictures are untrusted. Only PNG, JPEG and WebP are decoded, up to `LARGEST` pixels per side, and the size is read from
the header first.
"""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from base64 import b64decode
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from onlinehash import checks, png
from onlinehash.errors import InvalidInput, MissingExtra
from onlinehash.serve.errors import NotFound, TooLarge

if TYPE_CHECKING:
    from PIL.Image import Image

    from onlinehash.index.api import Item

#: Pixels a side, and bytes, of a picture that somebody sends.
LARGEST = 4096
MOST_BYTES = 16 * 2**20
#: Pixels a side of the vectors that are pictures themselves.
LARGEST_VECTOR = 1024

MEDIA_TYPES = ("image/png", "image/jpeg", "image/webp")
_BEGINNINGS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}

#: A border is paper if this share of its pixels has at least this brightness.
PAPER_SHARE, PAPER_BRIGHTNESS = 0.9, 0.8


class Pictures(ABC):
    """How items are shown as pictures, and how pictures become queries."""

    @abstractmethod
    def about(self) -> dict[str, object]:
        """Description for the page."""

    def vector_of(self, image: bytes) -> np.ndarray:
        """The float32 vector of a picture's file."""
        raise NotFound("this index only shows pictures and cannot search by one; search by id or vector.")

    def picture_of(self, item: Item) -> tuple[bytes, str] | None:
        """A picture of an item and its media type, if it has one."""
        return None


@dataclass(frozen=True)
class Pixels(Pictures):
    """A vector is the brightness of pixels from 0 to `scale`, row by row.

    Dark ink on white paper is turned into light ink on black, as in most sets of drawings (the digits, MNIST): a
    picture counts as such if nine tenths of its outermost pixels are nearly white, and the rest is darker. So an index
    of drawings should keep ink as high values.
    """

    height: int
    width: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        side = checks.integer(1, LARGEST_VECTOR)
        rules = {"height": side, "width": side, "scale": checks.real(0, above=True)}
        checks.parameters("Pixels", vars(self), rules)

    def about(self) -> dict[str, object]:
        """Their kind and size."""
        return {"kind": "pixels", "height": self.height, "width": self.width}

    def vector_of(self, image: bytes) -> np.ndarray:
        """Cropped to the shape of the pixels, averaged over each of them, turned to light ink."""
        pixels = _fitted(decoded(image).convert("L"), self.width, self.height) / np.float32(255)
        if _is_on_paper(pixels):
            pixels = 1 - pixels
        return (pixels * np.float32(self.scale)).reshape(-1)

    def png_of(self, vector: np.ndarray) -> bytes:
        """The pixels as they are, one each; what is outside 0 to `scale` is cut."""
        if np.size(vector) != self.height * self.width:
            raise InvalidInput(
                expected=f"{self.height} x {self.width} pixels",
                got=f"a vector of {np.size(vector)} values",
                hint="start the service with another size of pictures",
            )
        shares = np.asarray(vector, np.float64).reshape(self.height, self.width) / self.scale
        return png.written(np.round(255 * np.clip(shares, 0, 1)).astype(np.uint8))

    def picture_of(self, item: Item) -> tuple[bytes, str]:
        """The item's vector."""
        return self.png_of(item.vector), "image/png"


@dataclass(frozen=True)
class Gist(Pictures):
    """A vector is a picture's GIST descriptor (onlinehash.datasets.gist), of 512 values or of 960 in colour.

    A descriptor depends on the size that was described, `side` pixels; it has to be that of the items.
    """

    colour: bool = False
    side: int = 32

    def __post_init__(self) -> None:
        checks.parameters("Gist", vars(self), {"side": checks.integer(16, LARGEST_VECTOR)})

    def about(self) -> dict[str, object]:
        """Their kind and size."""
        return {"kind": "gist", "colour": self.colour, "side": self.side}

    def vector_of(self, image: bytes) -> np.ndarray:
        """The descriptor of the middle square."""
        from onlinehash.datasets import gist

        square = _fitted(decoded(image).convert("RGB" if self.colour else "L"), self.side, self.side)
        (vector,) = gist.describe(square[None])
        return np.asarray(vector)


@dataclass(frozen=True)
class FromPayload(Pictures):
    """A picture is a data: URI of PNG, JPEG or WebP in a field of the payload; anything else is no picture."""

    field: str

    def about(self) -> dict[str, object]:
        """Their kind."""
        return {"kind": "payload"}

    def picture_of(self, item: Item) -> tuple[bytes, str] | None:
        """The decoded field, if its bytes begin as its type says they do."""
        uri = (item.payload or {}).get(self.field)
        head, _, text = uri.partition(";base64,") if isinstance(uri, str) else ("", "", "")
        kind = head.removeprefix("data:")
        if not head.startswith("data:") or kind not in MEDIA_TYPES:
            return None
        try:
            data = b64decode(text, validate=True)
        except ValueError:
            return None
        return (data, kind) if _BEGINNINGS[kind].match(data) else None


def parse(text: str) -> Pictures:
    """`8x8`, `8x8:16` (values up to 16), `gist`, `gist-colour:64` (pixels a side), or `payload:FIELD`."""
    name, colon, more = text.partition(":")
    pixels = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", name)
    number = re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", more) is not None
    if pixels and (number or not colon):
        return Pixels(int(pixels[1]), int(pixels[2]), float(more or 1))
    if name in ("gist", "gist-colour") and ((more.isdecimal() and number) or not colon):
        return Gist(name == "gist-colour", int(more or Gist.side))
    if name == "payload" and more:
        return FromPayload(more)
    raise InvalidInput(
        expected="--pictures to be 8x8, 8x8:16, gist, gist-colour or payload:FIELD", got=checks.shown(text)
    )


# ------------------------------------------------------------------ decoding


def decoded(data: bytes) -> Image:
    """A picture in RGB or grey, upright, on white; refused if it is too large or damaged."""
    library = _pillow()
    if len(data) > MOST_BYTES:
        raise TooLarge(expected=f"a picture of at most {MOST_BYTES} bytes", got=f"{len(data)}", hint="make it smaller")
    try:
        with library.open(BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as image:
            if max(image.size) <= LARGEST:
                return _plain(image)
            size = " x ".join(map(str, image.size))
    except Exception as error:  # decoders raise all kinds of errors on damaged data
        problem = checks.shown(str(error).partition(" <")[0])  # without the address of a buffer
        raise InvalidInput(f"the picture is not a readable PNG, JPEG or WebP: {problem}.") from None
    raise InvalidInput(
        expected=f"a picture of at most {LARGEST} pixels per side", got=f"{size}", hint="make it smaller"
    )


@cache
def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("decoding pictures", "pillow", "serve") from None
    warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
    return Image


def _plain(image: Image) -> Image:
    from PIL import Image as library
    from PIL import ImageOps

    image.load()
    if image.mode.startswith(("I", "F")):  # 16 bits a pixel, which Pillow would clip to 8
        return library.fromarray((np.asarray(image).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))
    upright = ImageOps.exif_transpose(image)
    if not upright.has_transparency_data:
        return upright if upright.mode == "L" else upright.convert("RGB")
    seen = upright.convert("RGBA")
    paper = library.new("RGBA", seen.size, "white")
    return library.alpha_composite(paper, seen).convert("RGB")


def _fitted(image: Image, width: int, height: int) -> np.ndarray:
    """The middle of a picture in this shape; each pixel is the mean of those that it covers."""
    from PIL import Image as library
    from PIL import ImageOps

    shrinks = image.width >= width and image.height >= height
    method = library.Resampling.BOX if shrinks else library.Resampling.BICUBIC
    return np.asarray(ImageOps.fit(image, (width, height), method))


def _is_on_paper(pixels: np.ndarray) -> bool:
    """Whether the border is nearly white, and the inside darker."""
    inside = np.zeros(pixels.shape, np.bool_)
    inside[1:-1, 1:-1] = True
    border = pixels[~inside]
    if not inside.any() or np.mean(border >= PAPER_BRIGHTNESS) < PAPER_SHARE:
        return False
    return bool(pixels[inside].mean() < border.mean())
