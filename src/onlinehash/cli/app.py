"""The commands, with options and help; the module of a command's name does the work, loaded when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, NoReturn, cast

import typer

from onlinehash.cli import experiment_app, output, postgres_app
from onlinehash.cli.help import RepeatedArgument
from onlinehash.cli.options import with_options
from onlinehash.cli.serve_options import Options as ServeOptions
from onlinehash.errors import InvalidInput, OnlineHashError
from onlinehash.learners.registry import RECOMMENDED

#: What typer raises for a command line that it cannot understand; it has no public name for the base class.
USAGE_ERROR = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])

#: What the demo says at its end.
OFFER = "Search and teach it yourself, in a browser: {0} serve --demo; or texts: {0} serve --demo text"

app = typer.Typer(name="onlinehash", rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(experiment_app.app, name="experiment")
app.add_typer(postgres_app.app, name="postgres")

Json = Annotated[bool, typer.Option("--json", help="Write machine-readable JSON to standard output.")]
Format = Annotated[
    str | None,
    typer.Option(help="jsonl, csv, parquet, npz or npy, if the file name does not tell.", show_default=False),
]
Device = Annotated[Literal["cpu", "cuda"], typer.Option(help="Where to search; a CUDA card has to hold all codes.")]
Schema = Annotated[str | None, typer.Option(help="In PostgreSQL: the schema of the index.", show_default="onlinehash")]
Embed = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What makes vectors of texts: lexical, sentence-transformers:MODEL or module:function.",
        show_default=False,
    ),
]
AnyFormat = Annotated[str | None, typer.Option(help="As for `encode`, or for codes oh or txt.", show_default=False)]


def _method_names() -> list[str]:
    from onlinehash.learners.registry import methods

    return [name for method in methods() for name in (method.name, *method.aliases)]


NewMethod = Annotated[
    str | None,
    typer.Option(
        help="For a new index: a name from `onlinehash methods`.",
        show_default=RECOMMENDED,
        autocompletion=_method_names,
    ),
]
NewBits = Annotated[int | None, typer.Option(help="For a new index: length of a code.", show_default="64")]
NewFeatures = Annotated[
    str | None, typer.Option(help="For a new index: a feature map, as for `learn`.", show_default="none")
]
NewSeed = Annotated[int | None, typer.Option(help="For a new index: random seed.", show_default="0")]
NewSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="For a new index: any other parameter.", show_default=False),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from onlinehash import __version__

        print(f"onlinehash {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn short binary codes from a stream of similar and dissimilar pairs."""


@app.command()
def methods(
    bibtex: Annotated[bool, typer.Option("--bibtex", help="Write BibTeX for all methods: what to cite.")] = False,
    as_json: Json = False,
) -> None:
    """List the methods."""
    from onlinehash.cli import methods

    methods.show(bibtex, as_json)


@app.command(cls=RepeatedArgument)
def learn(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Files of pairs or of labelled vectors; with --index, of clicks, ratings or verdicts on items; - is "
            "standard input.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where to save the model.", show_default=False)
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Instead of saving a model: teach this index, a folder or postgresql://..., each row once.",
            show_default=False,
        ),
    ] = None,
    clicks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="With --index: a log of what was searched for, shown and clicked.", show_default=False
        ),
    ] = None,
    skip_weight: Annotated[
        float, typer.Option(min=0, help="With --clicks: the weight of an item that was passed over.")
    ] = 0.5,
    position_bias: Annotated[
        float, typer.Option(min=0, max=10, help="With --clicks: how fast attention falls along the list.")
    ] = 0.0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="With --index: leave out rows that are not valid, and say why.")
    ] = False,
    embed: Embed = None,
    schema: Schema = None,
    method: Annotated[
        str | None,
        typer.Option(help="A name from `onlinehash methods`.", show_default=RECOMMENDED, autocompletion=_method_names),
    ] = None,
    bits: Annotated[int | None, typer.Option(help="Length of a code.", show_default="64")] = None,
    features: Annotated[
        str | None,
        typer.Option(help="A feature map: rbf, rbf:300 or rbf:300,width=1,normalize=true.", show_default="none"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.", show_default="0")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter, such as C=0.05.", show_default=False),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Continue this model instead of a new one.", show_default=False)
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(help="The vectors by id, for pairs that name ids.", show_default=False)
    ] = None,
    similar_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column that says whether a pair is similar, such as clicked.",
            show_default="similar",
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="The labels of an npy file: npy, or text with one per line.", show_default=False)
    ] = None,
    format: Format = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many pairs.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Learn from pairs or labelled vectors and save the model, or teach an index what people clicked."""
    from onlinehash.cli import learn, parameters

    choices = parameters.Choices(method, bits, features, seed, settings)
    files = files or []
    if index is not None:
        typed = {"--output": output, "--resume": resume, "--vectors": vectors, "--labels": labels, "--limit": limit}
        typed |= {f"--{name}": value for name, value in vars(choices).items()}
        if refused := next((name for name, value in typed.items() if value is not None), None):
            raise InvalidInput(f"{refused} cannot be combined with --index, which has its own learner.")
        if not files and not clicks:
            raise InvalidInput("learn --index needs files: --clicks FILE, or files of ratings or verdicts.")
        from onlinehash.cli import learn_feedback

        learn_feedback.learn(
            index,
            [*files, *(clicks or [])],
            schema=schema,
            embed=embed,
            format=format,
            skip_weight=skip_weight,
            position_bias=position_bias,
            similar_column=similar_column,
            skip_bad=skip_bad,
            as_json=as_json,
        )
        return
    if clicks or skip_bad or embed is not None or schema is not None:
        raise InvalidInput(
            "--clicks, --skip-bad, --embed and --schema need --index TARGET, the index whose items were shown."
        )
    if not files or output is None:
        raise InvalidInput("learn needs files of pairs or labelled vectors, and --output FILE or --index TARGET.")
    learner = parameters.resume(resume, choices) if resume else parameters.make_learner(choices)
    learn.learn(learner, files, output, vectors, labels, format, limit, as_json, similar_column)


@app.command()
def encode(
    model: Annotated[str, typer.Argument(help="A model that `learn` saved.", show_default=False)],
    vectors: Annotated[str, typer.Argument(help="A file of vectors; - is standard input.", show_default=False)],
    output: Annotated[str, typer.Option("--output", "-o", help="A .npy, .npz, .txt or .oh file; - prints text.")] = "-",
    bits: Annotated[
        bool, typer.Option("--bits", help="Write one bool per bit to npy and npz, not packed bytes.")
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            help="Encode in parts, to a folder of Parquet: local, dask://HOST:PORT or ray://HOST:PORT.",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --on: the column of vectors.", show_default=False)
    ] = None,
    format: Format = None,
    as_json: Json = False,
) -> None:
    """Turn vectors into codes."""
    from onlinehash.cli import encode

    if on is not None:
        encode.encode_on(on, model, vectors, column, output, bits, format, as_json)
    elif column is not None:
        raise InvalidInput("--column needs --on ENGINE.")
    else:
        encode.encode(model, vectors, output, bits, format, as_json)


@app.command()
def index(
    source: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="A file of vectors or codes; - is standard input.", show_default=False),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="Where to save the index.", show_default=False)],
    model: Annotated[
        str | None,
        typer.Option(help="The model that encodes vectors; the index keeps it.", show_default=False),
    ] = None,
    kind: Annotated[
        Literal["flat", "multi"] | None,
        typer.Option(help="A scan of all codes, or tables.", show_default="by the number and length of the codes"),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            help="The ids: npy, text with one per line, or a column's name.", show_default="column id, or rows"
        ),
    ] = None,
    fusion: Annotated[
        Literal["min", "sum"] | None,
        typer.Option(help="How to combine the distances of several models.", show_default="the model's, or min"),
    ] = None,
    format: AnyFormat = None,
    as_json: Json = False,
) -> None:
    """Make an index of vectors or codes."""
    from onlinehash.cli import index

    index.index(source, output, model, kind, ids, fusion, format, as_json)


@app.command()
def search(
    index: Annotated[
        str,
        typer.Argument(
            help="An index that `index` saved, the folder of a live index or, with --text, postgresql://....",
            show_default=False,
        ),
    ],
    queries: Annotated[
        str | None, typer.Argument(help="A file of vectors or codes; - is standard input.", show_default=False)
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Instead of a file: a text to find; the index must hold texts.", show_default=False),
    ] = None,
    embed: Embed = None,
    schema: Schema = None,
    k: Annotated[
        int | None, typer.Option("-k", min=0, help="How many of the nearest to find.", show_default="10")
    ] = None,
    radius: Annotated[
        int | None, typer.Option(min=0, help="Find all items within this distance instead.", show_default=False)
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='In a live index: find only items whose payloads match, such as \'{"price": {"<": 50}}\'.',
            show_default=False,
        ),
    ] = None,
    codes: Annotated[
        bool, typer.Option("--codes", help="Search a live index by its codes alone, not by find.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Number of threads; -1: one per CPU.")] = 1,
    device: Device = "cpu",
    output: Annotated[
        str, typer.Option("--output", "-o", help="A .csv, .npz or .parquet file; - prints a table.")
    ] = "-",
    format: AnyFormat = None,
    as_json: Json = False,
) -> None:
    """Find the nearest items of an index."""
    from onlinehash.cli import parameters, search

    conditions = parameters.parse_where(where)
    if text is not None:
        if queries is not None or radius is not None or output != "-" or format is not None or device != "cpu":
            raise InvalidInput(
                "--text cannot be combined with a file of queries, --radius, --output, --format or --device."
            )
        from onlinehash.cli import search_text

        n = search.NEIGHBOURS if k is None else k
        search_text.search_text(index, schema, text, n, conditions, codes, embed, as_json)
        return
    if queries is None:
        raise InvalidInput("search needs a file of vectors or codes, or --text TEXT.")
    if embed is not None or schema is not None:
        raise InvalidInput("--embed and --schema need --text TEXT.")
    search.search(index, queries, k, radius, conditions, codes, jobs, device, output, format, as_json)


@app.command()
def info(
    file: Annotated[
        str, typer.Argument(help="A file that onlinehash wrote, or the folder of a live index.", show_default=False)
    ],
    vectors: Annotated[
        str | None, typer.Option(help="Vectors on which to report bit health.", show_default=False)
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="Held-out pairs: measure whether similar ones are closer.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe a file, and how good its bits are."""
    from onlinehash.cli import info

    info.show(file, vectors, pairs, as_json)


@app.command()
def data(
    path: Annotated[
        str | None,
        typer.Argument(help="A folder of data sets, or a file.", show_default="$ONLINEHASH_DATA, or data"),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare checksums, and read files for which none is published.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Show which data sets are present and where to get the others, or describe a file."""
    from onlinehash.cli import data

    return data.show(path, verify, as_json)


@app.command()
def check(
    path: Annotated[str, typer.Argument(help="The folder of a live index.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Verify all data of a live index."""
    from onlinehash.cli import check

    return check.check(path, as_json)


@app.command()
def backup(
    path: Annotated[str, typer.Argument(help="The folder of a live index.", show_default=False)],
    target: Annotated[str, typer.Argument(help="A new or empty folder.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Copy a live index, even while it is written to."""
    from onlinehash.cli import backup

    backup.backup(path, target, as_json)


@app.command()
def refresh(
    target: Annotated[
        str,
        typer.Argument(
            help="The folder of a live index, postgresql://..., or the URL of a service.", show_default=False
        ),
    ],
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Re-encode all items of an index with the learner's current hash functions."""
    from onlinehash.cli import refresh

    refresh.refresh(target, schema, as_json)


@app.command()
def export(
    path: Annotated[
        str,
        typer.Argument(
            help="The folder of a live index or the address of PostgreSQL; with --to a folder, or an index that "
            "`index` saved.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(help="What to write: a file, or for some stores a folder or an address.", show_default=False),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="STORE",
            help="Write codes for another store: duckdb, elasticsearch, lancedb, milvus, opensearch, parquet, "
            "pgvector, qdrant, sqlite-vec or vespa.",
            show_default="vectors, as JSON lines",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="With --to: the table, collection or document type.", show_default="items")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With --to: write only what changed since the export that this file records, then update it; the "
            "first export makes the file.",
            show_default=False,
        ),
    ] = None,
    schema: Schema = None,
    as_json: Json = False,
) -> int:
    """Write an index's codes for another store, or its vectors, even if the learner is damaged."""
    from onlinehash.cli import export

    if to is not None:
        if schema is not None:
            raise InvalidInput("--schema is for vectors, which are written without --to.")
        export.export_codes(path, target, to, name or "items", since, as_json)
        return 0
    if name is not None or since is not None:
        raise InvalidInput("--name and --since need --to STORE.")
    return export.export(path, target, as_json, schema)


@app.command()
@with_options(ServeOptions)
def serve(
    options: ServeOptions,
    method: NewMethod = None,
    bits: NewBits = None,
    features: NewFeatures = None,
    seed: NewSeed = None,
    settings: NewSettings = None,
    as_json: Json = False,
) -> None:
    """Serve an index over HTTP, with a page for searching and teaching."""
    from onlinehash.cli import parameters, serve

    serve.serve(options, parameters.Choices(method, bits, features, seed, settings), as_json)


@app.command()
def load(
    file: Annotated[
        str,
        typer.Argument(help="Items: Parquet, JSON lines or csv; - is standard input.", show_default=False),
    ],
    target: Annotated[
        str,
        typer.Argument(
            help="The folder of a live index, created if it does not exist, or postgresql://...", show_default=False
        ),
    ],
    id: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of ids.", show_default="id, or numbered automatically"),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of texts.", show_default="text, if there is one")
    ] = None,
    vector: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The column of vectors.", show_default="vector, embedding or x, or made of the texts"
        ),
    ] = None,
    text_ids: Annotated[
        bool, typer.Option("--text-ids", help="Take ids of a csv as text, even if they look like numbers.")
    ] = False,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave out rows that are not valid or whose id is taken, and say why."),
    ] = False,
    embed: Embed = None,
    schema: Schema = None,
    method: NewMethod = None,
    bits: NewBits = None,
    features: NewFeatures = None,
    seed: NewSeed = None,
    settings: NewSettings = None,
    format: Format = None,
    as_json: Json = False,
) -> None:
    """Add the items of a file to an index; repeat the command to resume an interrupted run."""
    from onlinehash.cli import load, parameters

    options = load.Options(file, target, schema, id, text, vector, embed, format, text_ids, skip_bad)
    load.load(options, parameters.Choices(method, bits, features, seed, settings), as_json)


@app.command()
def consume(
    source: Annotated[
        str,
        typer.Argument(
            help="redis://HOST:PORT/DB?stream=NAME (group=, consumer=) or kafka://HOST:PORT/TOPIC.", show_default=False
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            help="The folder of a live index, created if it does not exist, or postgresql://...", show_default=False
        ),
    ],
    schema: Schema = None,
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Messages per batch.")] = 500,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Stop when no messages are left.")] = False,
    name: Annotated[
        str | None,
        typer.Option(help="The name under which the index stores the position.", show_default="its address"),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of librdkafka, or ssl_... of redis-py.", show_default=False),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Serve Prometheus metrics on this port of loopback; 0 is any free port.",
            show_default=False,
        ),
    ] = None,
    method: NewMethod = None,
    bits: NewBits = None,
    features: NewFeatures = None,
    seed: NewSeed = None,
    settings: NewSettings = None,
    as_json: Json = False,
) -> None:
    """Learn from a Redis stream or a Kafka topic, each message exactly once."""
    from onlinehash.cli import consume, parameters

    options = consume.Options(source, target, schema, batch, until_empty, name, setting, metrics_port)
    consume.consume(options, parameters.Choices(method, bits, features, seed, settings), as_json)


@app.command()
def demo(
    report: Annotated[str, typer.Option(help="Where to write the HTML report.")] = "report.html",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn to hash handwritten digits and write a report about it."""
    from onlinehash import demo as demonstration
    from onlinehash.cli import target

    target.check(report)
    results = demonstration.run(report=report, seed=seed, console=output.console(to_stderr=as_json))
    if as_json:
        output.print_json({"report": report, "seed": seed, "results": results})
        return
    print(OFFER.format(sys.argv[0]), flush=True)
    if sys.stdin.isatty() and sys.stdout.isatty() and typer.confirm("Serve it now?", default=True):
        code = run(["serve", "--demo"])
        if code:
            raise typer.Exit(code)


def main() -> NoReturn:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))


@cache
def _command() -> Any:
    """All commands, made of their functions' signatures, which takes a tenth of a second."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; expected errors are printed as one sentence."""
    arguments = list(arguments) or ["--help"]
    as_json = "--json" in arguments
    try:
        with output.warnings_told(as_json):
            code = _command().main(arguments, prog_name="onlinehash", standalone_mode=False)
        sys.stdout.flush()
        return code or 0
    except OnlineHashError as error:
        return output.complain(error, str(error), error.exit_code, as_json)
    except USAGE_ERROR as error:
        return output.complain(error, error.format_message(), error.exit_code, as_json)
    except BrokenPipeError:
        # Nobody reads any more; what is left in the buffer must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return output.complain(error, f"{error.filename or 'input or output'}: {error.strerror}.", 1, as_json)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except SystemExit as stop:  # typer and rich leave this way when nobody reads their output
        return int(stop.code or 0)
