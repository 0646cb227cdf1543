"""How lines look: the same contestant the same in every figure, and apart from the others without colours too.

A line differs from its neighbours in marker, in dashes, in grey and in hue, also for the colour-blind. OH and MMOH are
solid and strong. A variant ("OH, linear") has the hue of its family, dashes, and hollow markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

Dashes = tuple[float, ...]
SOLID: Dashes = ()
DASHED: Dashes = (5, 2)
DOTTED: Dashes = (1, 1.6)
DASH_DOT: Dashes = (6, 1.6, 1, 1.6)
DASH_DOT_DOT: Dashes = (6, 1.6, 1, 1.6, 1, 1.6)
SHORT: Dashes = (2.5, 1.4)
LONG: Dashes = (10, 2.5)


@dataclass(frozen=True)
class Style:
    """The style of one line."""

    colour: str
    marker: str
    dashes: Dashes
    width: float = 1.3
    hollow: bool = False


STRONG = 2.3
FAMILIES = {
    "OH": Style("#00489c", "o", SOLID, STRONG),
    "MMOH": Style("#d55e00", "s", SOLID, STRONG),
    "Blended": Style("#c0103a", "o", DASHED, STRONG),
    "Float": Style("#111111", "|", SOLID),
    "Sign bits": Style("#6f6f6f", "_", SHORT),
    "Adapter": Style("#6a3d9a", "s", LONG),
    "Smooth": Style("#009e73", "D", LONG),
    "MBOH": Style("#5a3d00", "d", DASH_DOT_DOT),
    "MLH": Style("#b8508a", "v", DASH_DOT),
    "AdaptHash": Style("#6a3d9a", "P", SHORT),
    "LEGO": Style("#e69f00", "^", DASHED),
    "OSH": Style("#333333", ">", DASH_DOT_DOT),
    "SSBC": Style("#56b4e9", "<", DASHED),
    "FROSH": Style("#8c8c8c", "4", LONG),
    "LSH": Style("#8c8c8c", "+", DOTTED),
    "KLSH": Style("#6f6f6f", "x", DOTTED),
    "ITQ": Style("#a06a00", "p", DASHED),
    "KSH": Style("#2f9fb5", "h", DASH_DOT),
    "FastHash": Style("#8a1c4a", "^", SHORT),
    "SDH": Style("#111111", "X", LONG),
    "HCOH": Style("#e69f00", "p", SHORT),
    "HMOH": Style("#7a9a01", "*", DASH_DOT),
    "OECC": Style("#56b4e9", "<", LONG),
    "MIHash": Style("#7a5c00", "h", DASH_DOT_DOT),
    "OHWEU": Style("#008837", "1", DASHED),
    "OHSL": Style("#7b3294", "2", DASHED),
    "BSODH": Style("#2f9fb5", "X", DOTTED),
}
#: For methods that are not among these.
OTHERS = (
    Style("#7b3294", "d", SHORT),
    Style("#008837", "1", DASH_DOT),
    Style("#a6611a", "8", DASHED),
    Style("#4d4d4d", "2", LONG),
)
#: Of a family, by what follows its name: dashes, and a marker if it is not the family's. Others take the last.
VARIANTS: dict[str, tuple[Dashes, str | None]] = {
    "linear": (DASHED, None),
    "random bits": (DOTTED, "v"),
    "largest margins": (SHORT, "D"),
    "sum": (SHORT, "D"),
    "bits shared": (DOTTED, "v"),
    "bits shared, sum": (DASH_DOT, "^"),
    "linear, bits shared": (DOTTED, None),
    "sign bits": (DASHED, None),
    "ITQ": (SHORT, "D"),
    "": (LONG, "^"),
}
REFERENCE_DASHES = {"Float": DASHED, "ITQ": DOTTED}
#: For values in their order: from light to dark, which stays an order in grey.
LIGHT, DARK = (0.98, 0.72, 0.25), (0.10, 0.05, 0.35)
VALUE_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
VALUE_DASHES = (SOLID, DASHED, DASH_DOT, SHORT, LONG, DASH_DOT_DOT, DOTTED)


def styles_of(labels: Sequence[str]) -> dict[str, Style]:
    """Styles for the contestants of a figure; of those that are known, the same in every figure."""
    found: dict[str, Style] = {}
    others = 0
    for label in labels:
        family, _, variant = label.partition(", ")
        style = FAMILIES.get(family)
        if style is None:
            style, others = OTHERS[others % len(OTHERS)], others + 1
        elif variant:
            dashes, marker = VARIANTS.get(variant, VARIANTS[""])
            style = replace(style, dashes=dashes, marker=marker or style.marker, width=1.6, hollow=True)
        found[label] = style
    return found


def styles_of_references(labels: Sequence[str]) -> dict[str, Style]:
    """Styles for what is shown beside contestants: their own colours, thin, broken, and without markers."""
    return {label: replace(FAMILIES[label], marker="", dashes=REFERENCE_DASHES[label]) for label in labels}


def styles_in_order(labels: Sequence[str]) -> dict[str, Style]:
    """Styles for ordered values."""
    found = {}
    for k, label in enumerate(labels):
        at = k / max(1, len(labels) - 1)
        colour = "#" + "".join(f"{round(255 * (a + (b - a) * at)):02x}" for a, b in zip(LIGHT, DARK, strict=True))
        found[label] = Style(colour, VALUE_MARKERS[k % len(VALUE_MARKERS)], VALUE_DASHES[k % len(VALUE_DASHES)], 1.7)
    return found
