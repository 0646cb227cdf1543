"""The options of `onlinehash serve`, each declared once, with its help and its conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from onlinehash.cli.options import flag, is_postgres, marked
from onlinehash.errors import InvalidInput

#: What may follow --demo, in place of a folder; `items` is what is there where nothing is said.
DEMOS = ("items", "digits", "text")

FOLDER, MEMORY, DEMO, POSTGRES = "a folder", "--memory", "--demo", "PostgreSQL"


@dataclass(frozen=True)
class Only:
    """An option that applies to some kinds of targets only."""

    targets: tuple[str, ...]


class Writing:
    """An option that needs a service that makes changes."""


class ForReaders:
    """An option that reader processes get, too."""


@dataclass(frozen=True)
class Options:
    """The options, except those of a new learner."""

    target: Annotated[
        str, typer.Argument(help="The folder of a live index, created if it does not exist, or postgresql://...")
    ] = "items"
    schema: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="In PostgreSQL: the schema of the index.", show_default="onlinehash"),
    ] = None
    memory: Annotated[bool, typer.Option("--memory", help="Keep everything in memory.")] = False
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="Serve handwritten digits, or texts (--demo text), with a simulated teacher to start and pause.",
        ),
    ] = False
    host: Annotated[
        str, typer.Option(help="Where to listen; hosts other than loopback need a token."), ForReaders()
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Which port; 0 is any free port.")] = 8000
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Let other machines in without a token (ONLINEHASH_TOKEN)."),
        ForReaders(),
    ] = False
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Another host name of the service, as behind a proxy; repeatable.", show_default=False
        ),
        ForReaders(),
    ] = None
    refresh: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="When codes follow the learner: when_changed:0.05, every:50, by_mutual_information:0, budget:1000000, "
            "always or by_hand; stored with an index in a folder, and for this process alone in PostgreSQL.",
            show_default="when_changed:0.05",
        ),
        Writing(),
    ] = None
    sync: Annotated[
        Literal["full", "batch"],
        typer.Option(help="Wait for the disk at every change, or leave writing to the operating system."),
        Only((FOLDER, MEMORY, DEMO)),
    ] = "full"
    precision: Annotated[
        Literal["int8", "float16", "float32"],
        typer.Option(help="How vectors that `find` has compared are kept in memory: 1, 2 or 4 bytes a value."),
        Only((FOLDER,)),
        ForReaders(),
    ] = "int8"
    device: Annotated[
        Literal["cpu", "cuda"],
        typer.Option(help="Where to search; a CUDA card has to hold all codes."),
        Only((FOLDER, MEMORY)),
        ForReaders(),
    ] = "cpu"
    label: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="The payload field that holds a label; the page colours items by it.",
            show_default=False,
        ),
        ForReaders(),
    ] = None  # fmt: skip
    pictures: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="How items are shown, and how a picture becomes a query: 8x8 or 8x8:16 (vectors are pixels), gist, "
            "gist-colour or payload:FIELD.",
            show_default=False,
        ),
        ForReaders(),
    ] = None
    held_out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Labelled vectors on which to measure mean average precision while the index learns; needs --label.",
            show_default=False,
        ),
        Writing(),
    ] = None
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Run other methods on the same items and pairs, for comparison on the page."),
        Writing(),
    ] = False
    embed: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What makes vectors of texts: lexical, sentence-transformers:MODEL or module:function.",
            show_default=False,
        ),
        Only((FOLDER, MEMORY, POSTGRES)),
        ForReaders(),
    ] = None
    readers: Annotated[
        int,
        typer.Option(min=0, max=64, metavar="N", help="Additional processes that answer searches."),
        Only((FOLDER,)),
    ] = 0
    read_only: Annotated[
        bool,
        typer.Option("--read-only", help="Follow an index that another process writes."),
        Only((FOLDER,)),
    ] = False
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="One of the limits that /v1/about lists, such as batch=1000; repeatable.",
            show_default=False,
        ),
        ForReaders(),
    ] = None  # fmt: skip
    log_requests: Annotated[
        bool,
        typer.Option("--log-requests", help="Write a line of JSON to standard error for each request."),
        ForReaders(),
    ] = False

    @property
    def kind(self) -> str:
        """What is served: a folder, PostgreSQL, or what --memory or --demo makes."""
        if self.demo:
            return DEMO
        if self.memory:
            return MEMORY
        return POSTGRES if is_postgres(self.target) else FOLDER

    def is_given(self, name: str) -> bool:
        """Whether an option differs from its default."""
        return bool(getattr(self, name) != getattr(Options, name))

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.demo and self.memory:
            raise InvalidInput("--demo brings its own items and cannot be combined with --memory.")
        if self.demo and self.target not in DEMOS:
            raise InvalidInput(f"there is no demo {self.target!r}; use --demo (digits) or --demo text.")
        for name, only in marked(Options, Only).items():
            if self.is_given(name) and self.kind not in only.targets:
                raise InvalidInput(f"{flag(name)} needs {' or '.join(only.targets)}, not {self.kind}.")
        for name in marked(Options, Writing):
            if self.read_only and self.is_given(name):
                raise InvalidInput(f"{flag(name)} needs a service that makes changes, which --read-only does not.")
        if self.held_out and not self.label:
            raise InvalidInput("--held-out needs --label FIELD, the payload field that holds an item's label.")

    def of_reader(self) -> list[str]:
        """The command line of a reader process."""
        line = ["serve", self.target, "--read-only"]
        for name in filter(self.is_given, marked(Options, ForReaders)):
            value = getattr(self, name)
            for one in value if isinstance(value, list) else [value]:
                line += [flag(name)] if one is True else [flag(name), str(one)]
        return line
