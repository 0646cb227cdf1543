"""The demo's report: one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup

from onlinehash import __version__
from onlinehash.demo.charts import Line, line_chart
from onlinehash.demo.contest import N_ANCHORS, N_BITS, N_MODELS, Curve, Outcome, Point
from onlinehash.demo.digits import Digits
from onlinehash.demo.pictures import PLACES, searches
from onlinehash.evaluate.pairs import pair_distances
from onlinehash.templates import rendered


def page(floats: Curve, outcomes: list[Outcome], digits: Digits, seed: int) -> str:
    """The whole page as HTML."""
    itq, blended, lsh, oh, mmoh, wide, plain = outcomes
    curves = [floats, *outcomes]
    classes = np.bincount(digits.y_base)
    return rendered(
        "onlinehash.demo",
        "page.html",
        version=__version__,
        seed=seed,
        n_bits=N_BITS,
        n_models=N_MODELS,
        last_place=PLACES[-1],
        rarest=classes.min(),
        wide_bits=mmoh.result.bits_per_item,
        n_base=f"{len(digits.X_base):,}",
        n_queries=len(digits.X_query),
        n_pairs=f"{len(digits.stream.similar):,}",
        n_held_out=f"{len(digits.held_out.similar):,}",
        chance=f"{classes @ classes / classes.sum() ** 2:.2f}",
        tiles=_tiles(itq, blended, digits),
        curves=curves,
        map_text=_map_text(floats, itq, blended, oh, plain),
        map_chart=_curves(curves, lambda point: point.map, "mAP along the stream", "mAP"),
        loss_text=_loss_text(lsh, oh),
        loss_chart=_curves(
            [itq, lsh, oh, mmoh, plain],
            lambda point: point.loss,
            "Cumulative similarity loss along the stream",
            "cumulative loss R, bits",
        ),
        distance_charts=_distance_charts(blended, digits),
        places=PLACES,
        searches=searches(blended, digits),
        fair_text=f"mAP {wide.result.map_after:.3f}, where MMOH has {mmoh.result.map_after:.3f}.",
    )


def _tiles(itq: Outcome, blended: Outcome, digits: Digits) -> dict[str, str]:
    """The figures to remember."""
    r = blended.result
    return {
        "mAP by feedback": f"{itq.result.map_after:.2f} → {r.map_after:.2f}",
        "bytes per picture": f"{digits.X_base[0].nbytes} → {r.bits_per_item // 8}",
        "pairs learned": f"{len(digits.stream.similar):,}",
        "time per pair": f"{r.microseconds_per_pair:.1f} µs",
    }


# ------------------------------------------------------------------ curves


def _curves(curves: Sequence[Curve], value: Callable[[Point], float], title: str, y_label: str) -> Markup:
    lines = [Line(c.result.name, c.style, [p.n_pairs for p in c.points], [value(p) for p in c.points]) for c in curves]
    ends = "; ".join(f"{line.name} goes from {line.y[0]:.4g} to {line.y[-1]:.4g}" for line in lines)
    return line_chart(lines, title=title, description=f"{ends}.", x_label="pairs learned", y_label=y_label)


def _map_text(floats: Curve, itq: Outcome, blended: Outcome, oh: Outcome, plain: Outcome) -> str:
    without, start, end = itq.result.map_after, blended.points[0].map, blended.points[-1].map
    half = next(p.n_pairs for p in blended.points if p.map >= (start + end) / 2)
    ahead = next((p.n_pairs for p in oh.points if p.map >= without), None)
    when = "does not get as far" if ahead is None else f"is as far after {ahead:,} pairs"
    return (
        f"The pictures themselves, compared by their cosine, find each other with mAP {floats.result.map_after:.3f}; "
        f"codes without any feedback, those of Iterative Quantization, with {without:.3f}. Blended pairs, the "
        f"recommended learner, begins with such codes ({start:.3f}), has half of its gain after {half:,} pairs, and "
        f"ends at {end:.3f}. OH begins with the random functions of LSH ({oh.points[0].map:.3f}) and {when} as codes "
        f"without feedback. All but one learn on kernel features: what is hashed are a picture's similarities to "
        f"{N_ANCHORS} others. On the plain pixels, OH ends at {plain.points[-1].map:.3f}."
    )


def _loss_text(lsh: Outcome, oh: Outcome) -> str:
    tenth = max(1, len(oh.points) // 10)
    n = oh.points[tenth].n_pairs
    first, last = oh.points[tenth].loss / n, (oh.points[-1].loss - oh.points[-1 - tenth].loss) / n
    never = lsh.points[-1].loss / lsh.points[-1].n_pairs
    return (
        "A pair costs its similarity loss R: the bits by which the same digit is too far apart, or different "
        f"ones too near. LSH pays {never:.2f} bits a pair all along; OH {first:.2f} over the first {n:,} "
        f"pairs and {last:.2f} over the last. A longer code pays more by its length alone and is left out."
    )


def _distance_charts(outcome: Outcome, digits: Digits) -> Markup:
    """The distribution of held-out distances under the first and the last encoder, on the same scale."""
    similar = digits.held_out.similar
    bits = np.arange(outcome.after.n_bits + 1)
    shares = {}
    for when, encoder in (("before", outcome.before), ("after", outcome.after)):
        distances = pair_distances(encoder, digits.held_out.A, digits.held_out.B)[:, 0]
        for kind, chosen in (("same digit", similar), ("different", ~similar)):
            shares[when, kind] = np.bincount(distances[chosen], minlength=len(bits)) / chosen.sum()
    highest = max(float(share.max()) for share in shares.values())
    styles = {"same digit": "similar", "different": "dissimilar"}
    return Markup("").join(
        line_chart(
            [Line(kind, style, bits.tolist(), shares[when, kind].tolist()) for kind, style in styles.items()],
            title=f"Distances of held-out pairs {when} learning",
            description="Share of pairs at each Hamming distance, for the same digit and for different ones.",
            x_label="Hamming distance, bits",
            y_label=f"{when} learning: share of pairs",
            y_values=[0, highest],
            size=(440, 300),
            filled=True,
        )
        for when in ("before", "after")
    )
