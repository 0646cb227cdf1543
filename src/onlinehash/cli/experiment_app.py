"""The commands under `onlinehash experiment`, with options and help; `experiment.py` does the work."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onlinehash.cli.help import RepeatedArgument
from onlinehash.experiments import KEPT, RESULTS

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Write JSON for machines to standard output.")]
Plans = Annotated[
    list[str],
    typer.Argument(metavar="PLAN", help="Names from `experiment list`, all, or a .toml file.", show_default=False),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="[ROLE=]FILE",
        help="A set, or a folder of npz files; a ROLE such as gist1m says what to use it for.",
        show_default="the digits of scikit-learn",
    ),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="A method to add to the comparison: yours, by its entry point.",
        show_default=False,
    ),
]


def names(help: str) -> Any:
    """An option that may be given several times, with a name each."""
    return typer.Option(metavar="NAME", help=help, show_default=False)


Results = Annotated[str, typer.Option(help="The folder of raw results.")]
Kept = Annotated[str, typer.Option(help="The folder of kept results.")]


@app.callback()
def options() -> None:
    """Run every figure of the paper, and ours; draw them; verify them."""


@app.command("list")
def list_plans(as_json: Json = False) -> None:
    """List the plans: one for each figure."""
    from onlinehash.cli import experiment

    experiment.show_plans(as_json)


@app.command(cls=RepeatedArgument)
def run(
    plans: Plans,
    data: Data = None,
    method: Others = None,
    reading: Annotated[
        list[str] | None, names("Run them under this reading of the paper instead, or under all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a smaller, faster version for a first look.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions.", show_default="the plan's")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes at work.", show_default="one for each CPU")
    ] = None,
    again: Annotated[list[str] | None, names("A method to run again even if its results exist.")] = None,
    results: Results = RESULTS,
    as_json: Json = False,
) -> int:
    """Run plans; finished runs are not repeated."""
    from onlinehash.cli import experiment

    others, readings = method or [], reading or []
    return experiment.run(plans, data or [], others, readings, quick, seeds, workers, again or [], results, as_json)


@app.command(cls=RepeatedArgument)
def figure(
    plans: Plans,
    method: Others = None,
    results: Results = RESULTS,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="The folder to write to.", show_default="figures in that of the results"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw figures as PNG and SVG, and a page that shows them."""
    from onlinehash.cli import experiment

    experiment.figure(plans, method or [], results, output or f"{results}/figures", as_json)


@app.command(cls=RepeatedArgument)
def table(
    plans: Plans,
    method: Others = None,
    reading: Annotated[
        list[str] | None, names("Show them under this reading of the paper instead, or under all.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="What to show, such as precision@10.", show_default="what the figure shows")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a page.")] = False,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Print tables, with spread and significance."""
    from onlinehash.cli import experiment

    experiment.table(plans, method or [], reading or [], measure, markdown, results, as_json)


@app.command()
def claims(
    reading: Annotated[
        list[str] | None, names("Judge those that this reading of the paper may turn under it, or under all.")
    ] = None,
    results: Kept = KEPT,
    as_json: Json = False,
) -> None:
    """Judge the paper's claims by kept results."""
    from onlinehash.cli import experiment

    experiment.claims(reading or [], results, as_json)


@app.command()
def keep(
    results: Results = RESULTS,
    output: Annotated[str, typer.Option("--output", "-o", help="The folder of kept results.")] = KEPT,
    as_json: Json = False,
) -> None:
    """Add raw results to the kept ones, in compact form."""
    from onlinehash.cli import experiment

    experiment.keep(results, output, as_json)


@app.command()
def report(
    results: Kept = KEPT,
    output: Annotated[
        str, typer.Option("--output", "-o", help="The folder of its pages.")
    ] = "docs/explanation/reproduce",
    figures: Annotated[str, typer.Option(help="The folder of its figures.")] = "docs/figures/experiments",
    as_json: Json = False,
) -> None:
    """Write the reproduction report from kept results."""
    from onlinehash.cli import experiment

    experiment.report(results, output, figures, as_json)


@app.command()
def verify(
    cells: Annotated[int, typer.Option(min=1, help="How many runs to repeat.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed that draws the runs to repeat.")] = 0,
    data: Data = None,
    results: Kept = KEPT,
    as_json: Json = False,
) -> int:
    """Repeat randomly chosen kept runs and compare."""
    from onlinehash.cli import experiment

    return experiment.verify(cells, seed, data or [], results, as_json)
