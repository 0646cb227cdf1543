"""`onlinehash learn --index`: teaches an index what files of clicks, ratings or verdicts say, each row once."""

from __future__ import annotations

import time
from collections.abc import Sequence

from onlinehash import feedback
from onlinehash.cli import output, parameters
from onlinehash.cli.options import is_postgres
from onlinehash.errors import InvalidInput
from onlinehash.progress import progress_bar


def learn(
    target: str,
    files: Sequence[str],
    *,
    schema: str | None,
    embed: str | None,
    format: str | None,
    skip_weight: float,
    position_bias: float,
    similar_column: str | None,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Learn the files in order, and bring the codes up to date."""
    from onlinehash.live.storage import Storage

    is_folder = not is_postgres(target)
    if is_folder and not Storage.exists(target):
        raise InvalidInput(f"there is no index in {target}; make one with `onlinehash load`.")
    nothing = parameters.Choices(None, None, None, None, None)
    began = time.perf_counter()
    embedder = parameters.load_embedder(embed)
    with progress_bar(len(files)) as show, parameters.open_index(target, schema, nothing, embed=embedder) as index:
        found, complaints = list[feedback.Learned](), list[InvalidInput]()
        agreements = [feedback.Agreement() for _ in files]
        for number, file in enumerate(files):

            def watch(share: float | None, rows: int, number: int = number) -> None:
                show(None if share is None else number + share, f"{rows:,} rows")

            found.append(
                feedback.learn(
                    index,
                    file,
                    format=format,
                    skip_weight=skip_weight,
                    position_bias=position_bias,
                    similar_column=similar_column,
                    watch=watch,
                    bad_row=complaints.append if skip_bad else None,
                    agreement=agreements[number],
                )
            )
        if any(index.behind):  # perhaps since a run that ended before it came so far
            index.refresh()
    seconds = time.perf_counter() - began
    output.print_left_out(complaints)
    for file, one, agreement in zip(files, found, agreements, strict=True):
        if as_json:
            clicks = {"compared": agreement.compared, "agreed": agreement.agreed, "p_value": agreement.p_value}
            output.print_json({"file": file, **one._asdict(), **clicks, "seconds": seconds})
        else:
            _tell(file, target, one)
        if agreement.is_chance:
            output.warn(
                f"{file}: for {agreement.agreed:,} of {agreement.compared:,} queries, results that were clicked were "
                f"nearer than the others, no more than by chance (p = {agreement.p_value:.2f}): the clicks may "
                "be noise, or too few to learn from.",
                as_json,
            )


def _tell(file: str, target: str, one: feedback.Learned) -> None:
    from onlinehash.consume.address import without_login

    earlier = f", {one.rows_before:,} rows were learned before" if one.rows_before else ""
    gone = f", {one.unknown:,} pairs of items that are not there" if one.unknown else ""
    bad = f", {one.bad:,} rows left out" if one.bad else ""
    print(f"{file}: {one.rows:,} rows, {one.pairs:,} pairs learned by {without_login(target)}{earlier}{gone}{bad}")
