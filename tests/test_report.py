"""Numbers in prose: each stands in the rows, of the pages linked beside it, that concern what its sentence names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from onlinehash.experiments.plan import plans
from onlinehash.experiments.readings import known_readings
from tests.test_docs import slug

DOCS = Path(__file__).parents[1] / "docs/explanation"
PAGES = ["report.md", "later-papers.md", "../how-to/choose-a-learner.md"]
#: What was measured: at least two decimals, a percentage, or a factor. Pages print factors without the word.
NUMBER = re.compile(r"(?<![\w.,])(?:\d+\.\d{2,}(?! ?%)|\d+(?:\.\d+)? ?%|\d+\.\d(?= times))")
PRINTED = re.compile(r"(?<![\w.,])\d+(?:\.\d+)?(?: ?%)?")
SETS = ("Photo Tourism", "LabelMe", "GIST1M", "CIFAR-10", "MNIST", "20 Newsgroups")
KINDS = ("meaning", "rotated", "default")
METHODS = (
    *("OH", "MMOH", "Blended", "Smooth", "ITQ", "Float", "LSH", "OSH", "AdaptHash", "MLH", "LEGO"),
    *("HMOH", "HCOH", "MIHash", "OHWEU", "OHSL", "SSBC", "SDH"),
)
#: The words of sentences for what rows and columns name otherwise.
ALIASES = {
    "four sets": ", ".join(SETS[:4]),
    "no pair|[Ww]ithout feedback": "0 marks",
    "exact cosine|floats": "Float",
    "LEGO-LSH": "LEGO",
    "`(Blended|Smooth)PairHashing`": r"\1",
}
#: Figures of others, which no page of ours prints.
PUBLISHED = "TreezzZ/HCOH_Pytorch"


class Cell(NamedTuple):
    """A cell of a table with the words of its row and column; or an item of a list, which has no column."""

    row: str
    column: str
    text: str


class Sentence(NamedTuple):
    """A sentence, all from the last links before it to the next ones, and these."""

    text: str
    around: str
    links: tuple[str, ...]


def plain(text: str) -> str:
    """On one line, without spreads, and both ends of a range of percentages with their sign."""
    return re.sub(r"([\d.]+) to ([\d.]+ ?%)", r"\1 % to \2", re.sub(r" ± [\d.]+", "", " ".join(text.split())))


@cache
def cells(link: str) -> tuple[Cell, ...]:
    """What a page prints, or its section after the #; a blank cell says what the one above it does."""
    path, _, section = link.partition("#")
    found: list[Cell] = []
    for part in re.split(r"\n(?=#+ )", (DOCS / path).read_text()):
        if section in ("", slug(part.partition("\n")[0].lstrip("# "))):
            found += [Cell(plain(item), "", plain(item)) for item in re.findall("^- .*", part, flags=re.MULTILINE)]
            for table in re.findall(r"^\|.*\n\| --(?:.*\n\|)*.*", part, flags=re.MULTILINE):
                head, _, *rows = ([cell.strip() for cell in plain(row).split("|")[1:-1]] for row in table.splitlines())
                above = head
                for row in rows:
                    above = [value or before for value, before in zip(row, above, strict=True)]
                    words = " ".join([head[0], *(value for value in above if not NUMBER.search(value))])
                    found += [Cell(words, *one) for one in zip(head, above, strict=True)]
    return tuple(found)


def sentences(page: str) -> Iterator[Sentence]:
    for part in re.split(r"\n\n|\n(?=- |\|)", (DOCS / page).read_text()):
        around: list[str] = []
        for sentence in [*re.split(r"(?<=[.;|])\s+", part), ""]:
            around.append(plain(sentence))
            links = tuple(re.findall(r"\]\(([^)\s]+\.md[^)\s]*)\)", sentence))
            if (links or not sentence) and PUBLISHED not in part:
                yield from (Sentence(one, " ".join(around), links) for one in around)
                around = []


def named(names: Iterable[str], text: str) -> list[str]:
    return [name for name in names if re.search(rf"(?<![\w.,-]){re.escape(name)}(?![\w-]|[.,]\d)", text, flags=re.I)]


def concerned(page: str, sentence: Sentence) -> list[Cell]:
    """The cells that a sentence can mean: those that share a set, a kind, a method and a column with it, if any do.

    What a sentence does not say itself is what those around it say.
    """
    found = [cell for link in sentence.links for cell in cells((Path(page).parent / link).as_posix())]
    texts = [re.sub(r"\]\([^)]*\)", "]", text) for text in (sentence.text, sentence.around)]
    for words, name in ALIASES.items():
        texts = [re.sub(words, name, text) for text in texts]
    for names in (SETS, KINDS, METHODS):
        told = named(names, texts[0]) or named(names, texts[1])
        found = [cell for cell in found if named(told, cell.row)] or found
    columns = {cell.column.split()[0] for cell in found if re.match(rf"\d|(?:{'|'.join(METHODS)})$", cell.column, re.I)}
    told = named(columns, texts[0]) or named(columns, texts[1])
    return [cell for cell in found if not cell.column or cell.column.split()[0] in told] if told else found


def missing(page: str, sentence: Sentence) -> Iterator[str]:
    """For each number of a sentence that stands in none of its cells: what is printed there instead."""
    text = sentence.text
    for words in DERIVED:
        before, after = map(re.escape, re.split("{.*}(?: %)?", words))
        text = re.sub(before + NUMBER.pattern + after, "", text)
    printed = {
        number.replace(" ", ""): cell
        for cell in (concerned(page, sentence) if NUMBER.search(text) else ())
        for number in PRINTED.findall(f"{cell.column} {cell.text}")
    }
    for number in NUMBER.findall(text):
        if number.replace(" ", "") not in printed:
            alike = [one for one in printed if one.endswith("%") == number.endswith("%")]
            near = min(alike, key=lambda one: abs(float(one.rstrip("%")) - float(number.rstrip(" %"))), default=None)
            there = f"{near} ({', '.join(printed[near][:2]).strip(', ')})" if near else "nothing"
            yield f"{number} in {sentence.text!r}: the nearest of {', '.join(sentence.links) or 'no page'} is {there}"


def values(link: str, row: str, *columns: str) -> list[float]:
    """What is printed in rows whose words end like this pattern, and in these columns or in all."""
    numbers = [
        NUMBER.search(cell.text)
        for cell in cells(link)
        if re.search(f"{row}$", cell.row) and (not columns or cell.column in columns)
    ]
    return [float(number.group().rstrip(" %")) for number in numbers if number]


def largest(more: list[float], less: list[float]) -> float:
    """The largest difference between two rows."""
    return max(a - b for a, b in zip(more, less, strict=True))


SHORT, LONG = ("16 bits", "32 bits"), ("16", "32", "64", "128")
BOTH = "reproduce/online.md", "reproduce/reading-chosen-C.md#online-methods-against-code-length"
LATER = [values(f"reproduce/{name}.md", "^set .*") for name in ("later", "later-stored")]
COMPARED = "../reference/learners/compared.md"
STAY = "../reference/learners/codes-that-stay.md#what-it-costs"
#: Words with a number that follows from printed ones, and what it is.
DERIVED = {
    "never more than {:.3f} below ITQ's": max(
        largest(values(f"feedback/{name}.md#map", "[^,] ITQ"), values(f"feedback/{name}.md#map", "Blended"))
        for name in ("random", "noise", "uniform", "shown")
    ),
    "they may lose up to {:.2f}": largest(*(values(link, " (OH|MMOH)", *SHORT) for link in BOTH)),
    "inferred, and {:.0f} % of": 100 - values("reproduce/method.md#the-sets", "independent check.*")[0],
    "changes no mean by more than {:.3f}": max(largest(*LATER), largest(*reversed(LATER))),
    "rankings have up to {:.2f} more": largest(values(STAY, "OHSL, the .*"), values(STAY, "OHSL, code of the query")),
    "on MNIST within {:.2f} mAP of MIHash": largest(
        *(values(COMPARED, f"^MNIST {method} labels point.*", *LONG) for method in ("MIHash", "HMOH"))
    ),
    "on CIFAR-10 it costs up to {:.2f}": largest(
        *(values(COMPARED, f"^CIFAR-10.* {method} labels point.*", *LONG) for method in ("HMOH", "HMOH, kernel"))
    ),
}


@pytest.mark.parametrize("page", PAGES)
def test_every_number_stands_where_the_links_beside_it_lead(page):
    found = list(sentences(page))
    assert sum(len(NUMBER.findall(sentence.text)) for sentence in found) > 15
    assert not [one for sentence in found for one in missing(page, sentence)]


@pytest.mark.parametrize("words", DERIVED)
def test_what_is_derived_follows_from_what_is_printed(words):
    text = " ".join(" ".join((DOCS / page).read_text().split()) for page in PAGES)
    assert words.format(DERIVED[words]) in text


def test_the_report_names_the_command_that_prints_a_number():
    for part in re.split(r"\n\n|\n(?=- )", (DOCS / "report.md").read_text()):
        if re.search(r"\d\.\d", part):
            assert re.search(r"`(?:experiment\s(?:claims|table)|python benchmarks/)", part), part


def commands(page: str) -> list[list[str]]:
    """The words of each command that prints kept results, wherever it breaks over lines."""
    found = re.findall(r"`((?:onlinehash )?experiment\s(?:claims|table)[^`]*)`", (DOCS / page).read_text())
    return [command.removeprefix("onlinehash ").split() for command in found]


@pytest.mark.parametrize("page", PAGES[:2])
def test_commands_print_what_is_kept(page):
    known = {plan.name for plan in plans(["all"])}
    assert commands(page)
    for _, verb, *words in commands(page):
        options = dict(itertools.pairwise(words))
        named_plans = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
        assert {*named_plans} <= known
        assert options.get("--reading", "raw") in known_readings()
        assert verb == "claims" or (named_plans and options.get("--results") == "docs/results")


@pytest.mark.parametrize("page", PAGES[:2])
def test_seeds_are_as_many_as_the_linked_pages_say(page):
    for sentence in sentences(page):
        pages = [(DOCS / Path(page).parent / link.partition("#")[0]).read_text() for link in sentence.links]
        for word in re.findall(r"(?<!least )(two|three|five|ten) seeds", sentence.text) if pages else ():
            number = {"two": 2, "three": 3, "five": 5, "ten": 10}[word]
            assert re.search(f"{word} seeds|--seeds {number}|; {number} seeds", "\n".join(pages)), sentence.text
