"""Running the command line in this process, and small data for it."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from onlinehash.cli import run


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """JSON lines on standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


def onlinehash(*arguments: object, stdin: str = "") -> Outcome:
    """`onlinehash ARGUMENTS`, without a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
    ):
        code = run([str(argument) for argument in arguments])
    return Outcome(code, out.getvalue(), err.getvalue())


def done(*arguments: object, stdin: str = "") -> Outcome:
    """`onlinehash ARGUMENTS`, which must succeed and have nothing to say on standard error."""
    outcome = onlinehash(*arguments, stdin=stdin)
    assert (outcome.code, outcome.err) == (0, "")
    return outcome


def refused(*arguments: object, stdin: str = "") -> tuple[int, str]:
    """`onlinehash ARGUMENTS`, which must fail with one sentence and no more: its exit code, the sentence."""
    outcome = onlinehash(*arguments, stdin=stdin)
    assert outcome.code != 0
    assert outcome.out == ""
    assert outcome.err.startswith("onlinehash: ")
    assert outcome.err.count("\n") == 1
    return outcome.code, outcome.err.removeprefix("onlinehash: ").strip()


@dataclass(frozen=True)
class Data:
    """Three clusters in the plane of four dimensions, and pairs of their points."""

    X: np.ndarray
    y: np.ndarray
    A: np.ndarray
    B: np.ndarray
    similar: np.ndarray
    weight: np.ndarray

    @classmethod
    def make(cls, n: int = 60, n_features: int = 4) -> Data:
        rng = np.random.default_rng(8)
        y = rng.integers(3, size=n)
        X = rng.standard_normal((3, n_features))[y] * 2 + rng.standard_normal((n, n_features))
        i, j = rng.integers(n, size=(2, n))
        return cls(X, y, X[i], X[j], y[i] == y[j], np.round(rng.random(n), 2))

    def jsonl(self, rows: slice = slice(None), weight: bool = False) -> str:
        """Pairs as JSON lines."""
        parts = zip(self.A[rows], self.B[rows], self.similar[rows], self.weight[rows], strict=True)
        return "".join(
            json.dumps(
                {"a": a.tolist(), "b": b.tolist(), "similar": bool(s)} | ({"weight": float(w)} if weight else {})
            )
            + "\n"
            for a, b, s, w in parts
        )

    def write_pairs(self, path: Path, rows: slice = slice(None)) -> Path:
        path.write_text(self.jsonl(rows))
        return path
