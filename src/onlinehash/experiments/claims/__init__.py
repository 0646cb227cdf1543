"""The paper's claims, each judged by a pure function of the results.

    judged(rows)        every claim with what was measured and a verdict: confirmed, confirmed in part, not confirmed,
                        or not tested, where results are missing
    judged_under(...)   those that another reading of the paper may turn
    judged_alike(...)   the same by what was planned, where it was run under that reading, too

A module for each kind of claim: `parameters` (β, T, C), `retrieval` (mAP against code length), `times`, `theory` and
`drift`. `levels` has the one rule by which all of them compare, `verdicts` how parts of a claim are put together.
"""

from __future__ import annotations

from typing import Any

from onlinehash.experiments.claims import drift, parameters, retrieval, theory, times
from onlinehash.experiments.claims.verdicts import Claim, Judged, Verdict, judge
from onlinehash.experiments.readings import Reading
from onlinehash.experiments.rows import Row, Rows

__all__ = ["CLAIMS", "Claim", "Judged", "Verdict", "judged", "judged_alike", "judged_under"]

CLAIMS: tuple[Claim, ...] = (
    *parameters.CLAIMS,
    *retrieval.CLAIMS,
    *times.CLAIMS,
    *theory.CLAIMS,
    *drift.CLAIMS,
)


def judged(rows: Rows) -> list[Judged]:
    """All claims, in the order of the paper's experiments."""
    return [judge(claim, rows) for claim in CLAIMS]


def judged_under(reading: Reading, rows: Rows) -> list[Judged]:
    """Those that rest on plans of a reading, judged by its rows; "not tested" where none of a plan was run."""
    return [judge(claim, rows) for claim in CLAIMS if {*claim.plans} <= {*reading.plans}]


def judged_alike(reading: Reading, rows: Rows, planned: Rows) -> list[Judged]:
    """The claims of `judged_under` by the rows of the plans themselves, at the sets, lengths and seeds of `rows` alone.

    A verdict that differs from these is due to the reading, and not to what was run under it.
    """
    run = {_place(row) for row in rows}
    return judged_under(reading, Rows(row for row in planned if _place(row) in run))


def _place(row: Row) -> tuple[Any, ...]:
    return row.plan, row.role, row.line, row.value, row.seed
