"""Results that nobody measured: rows for any plan, with numbers of a plausible size, the same at every call."""

import zlib

import numpy as np

from onlinehash.experiments.plan import cells
from onlinehash.experiments.results import Result
from onlinehash.experiments.roles import NamedSet, roles
from onlinehash.experiments.rows import Row, Rows

NAMES = {
    "photo-tourism": "photo_tourism_gist512",
    "labelme": "gist512_22k",
    "gist1m": "gist960_30k",
    "cifar10": "cifar10_deep512",
    "labelled": "mnist",
    "unlabelled": "vectors",
}


def named_sets(*names):
    """Sets of these roles, or of all."""
    known = roles()
    return [NamedSet(f"{NAMES[name]}.npz", NAMES[name], "0" * 16, known[name]) for name in names or known]


def made_up(plan, sets=None, n_queries=60, references=False):
    """Every cell of a plan, done: of the contestants, and if asked for of the references."""
    return Rows(
        Row(cell, _result(plan, cell, n_queries))
        for cell in cells(plan, sets or named_sets())
        if references or not cell.is_reference
    )


def _result(plan, cell, n_queries):
    skill = zlib.crc32(f"{cell.set.name} {cell.line}".encode()) % 1000 / 1000
    place = (cell.set.name, cell.line, cell.value, cell.seed)
    setting, rng = cell.setting, np.random.default_rng(zlib.crc32(repr(place).encode()))
    n_pairs = int(setting.conditions["pairs"])
    n_looks = int(setting.conditions.get("checkpoints", setting.conditions.get("groups", 1)))
    share = plan.values.index(cell.value) / max(1, len(plan.values) - 1)
    quality = 0.15 + 0.4 * skill + 0.15 * share * (1.4 - share)
    values = np.clip(quality + 0.1 * rng.standard_normal(n_queries), 0, 1)
    looks = [_look(setting, n_pairs, k / n_looks, skill, quality, rng) for k in range(1, n_looks + 1)]
    facts = {"similar_share": 0.1, "flops_per_pair": round(3000 + 9000 * skill), "n_features": 512}
    if setting.conditions.get("exam", True):
        looks[-1]["map"] = float(values.mean())
        curve = np.clip(quality + 0.4 * (1 - np.linspace(0, 1, 11)) ** 2 + 0.01 * rng.standard_normal(11), 0, 1)
        facts |= {"n_queries": n_queries, "n_base": 5000, "curve": [float(p) for p in curve]}
        return Result(setting, looks, values, facts)
    return Result(setting, looks, None, facts)


def _look(setting, n_pairs, done, skill, quality, rng):
    pairs = round(n_pairs * done)
    noise = 1 + 0.03 * rng.standard_normal()
    C = setting.parameters.get("C", 0.1)
    look = {
        "pairs": pairs,
        "seconds": pairs * (1 + 40 * skill) * 1e-6 * (1 + setting.n_bits / 300) * noise,
        "loss": pairs ** (0.7 - 0.05 * np.log10(C)) * noise,
        "capped_share": 0.02 * noise,
        "update_rate": 0.3 * noise,
    }
    if setting.conditions.get("bounds"):
        look |= {"smallest_C": 0.017 * noise * (1 + done), "F2": 200.0 * noise, "largest_R": 12.0}
    if setting.conditions.get("exam", True):
        look["map"] = float(quality * (0.6 + 0.4 * done) * noise)
    return look
