"""Settings of the documentation site; `make docs` builds it into build/docs."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from html import unescape
from pathlib import Path

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx.search.en import SearchEnglish
from sphinx.util.typing import stringify_annotation

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import docstrings  # noqa: E402
import reference_pages  # noqa: E402

import onlinehash  # noqa: E402

project = "onlinehash"
author = "The onlinehash authors"
copyright = author
version = release = onlinehash.__version__

#: The most rows of a table of results that is shown as it is.
LONG_TABLE = 14
#: Cells with more characters than this hold words, and get room for them.
WORDY = 40
#: Tables with more columns, and printed lines with more characters, are set in smaller type.
COLUMNS, LINE = 7, 92

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["results"]
REPOSITORY = "https://github.com/onlinehash/onlinehash/blob/main"

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

highlight_language = "text"  # indented formulas and drawings, whose words are no keywords
default_role = "py:obj"
suppress_warnings = ["ref.python"]  # such as n_bits in the shape of an array: several classes have one
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# Shown by their names: what they stand for is NumPy's own affair, and fills lines.
autodoc_type_aliases = {name: name for name in ("ArrayLike", "VectorLike", "Vectors", "Queries", "Init", "Stream")}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Yields"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# Of `make docs-links`: addresses of examples, and pages that are there once this has been published.
linkcheck_ignore = [
    r"http://(127\.0\.0\.1|host)[:/].*",
    r"https://[\w.]*example\.org.*",
    r"https://github\.com/onlinehash/.*",
]

html_theme = "furo"
html_title = "onlinehash"
html_baseurl = "https://onlinehash.github.io/onlinehash/"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": "https://github.com/onlinehash/onlinehash/",
    "source_branch": "main",
    "source_directory": "docs/",
}


def point_to_repository(app, name, source):
    """Let links to files beside docs/, which are no pages of the site, lead to the repository."""
    here = Path(app.env.doc2path(name)).parent

    def target(found: re.Match[str]) -> str:
        there = os.path.relpath((here / found[1]).resolve(), DOCS.parent)
        return found[0] if there.startswith("docs") else f"]({REPOSITORY}/{there}{found[2] or ''})"

    source[0] = re.sub(r"\]\(((?:\.\./)+[^)#\s]*)(#[^)]*)?\)", target, source[0])


def offer_notebook(app, name, source):
    """Let a tutorial link to itself as a notebook."""
    if name.startswith("tutorials/") and "```python" in source[0]:
        source[0] += f'\n<a href="{name.rpartition("/")[2]}.ipynb" download>Download this tutorial as a notebook</a>\n'


def notebook(page: Path) -> dict:
    """A page as a Jupyter notebook: Python blocks are code, with what they print or draw, and all else is Markdown.

    What a block printed stands right below it, or below a line that says so, which then follows the output.
    """
    cells = []
    block = (
        r"^```python\n(.*?)^```\n(?:\n(?:([^\n`]+):\n\n)?```text\n(.*?)^```\n)?"
        r"(?:\n!\[([^\]]*)\]\(([^)]*\.svg)\)\n)?"
    )
    words, *found = re.split(block, page.read_text(), flags=re.MULTILINE | re.DOTALL)
    cells += [markdown_cell(words, page)] if words.strip() else []
    for code, said, printed, alternative, picture, words in zip(*(found[k::6] for k in range(6)), strict=True):
        outputs = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
        if picture:
            data = {"image/svg+xml": (page.parent / picture).read_text(), "text/plain": alternative}
            outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
        code_cell = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": outputs}
        cells.append(code_cell | {"source": code.strip()})
        words = f"{said}.\n\n{words.lstrip()}" if said else words
        cells += [markdown_cell(words, page)] if words.strip() else []
    cells = [cell | {"id": f"cell-{k}"} for k, cell in enumerate(cells)]
    return {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def markdown_cell(words: str, page: Path) -> dict:
    """Words of a notebook, which may be read anywhere: their links lead to the site and to the repository."""

    def target(found: re.Match[str]) -> str:
        there = Path(os.path.relpath((page.parent / found[1]).resolve(), DOCS))
        if there.parts[0] == "..":
            return f"]({REPOSITORY}/{there.relative_to('..')})"
        return f"]({html_baseurl}{there.with_suffix('.html')}{found[2] or ''})"

    return {
        "cell_type": "markdown",
        "metadata": {},
        "source": re.sub(r"\]\(([^):#\s]+)(#[^)]*)?\)", target, words.strip()),
    }


def write_notebooks(app, error):
    """Write each tutorial as a notebook beside its page."""
    if error or app.builder.format != "html":
        return
    for page in (DOCS / "tutorials").glob("*.md"):
        if "```python" in page.read_text():
            path = Path(app.outdir, page.relative_to(DOCS)).with_suffix(".ipynb")
            path.write_text(json.dumps(notebook(page), indent=1, ensure_ascii=False) + "\n")


def tidy_signature(app, what, name, thing, options, signature, returns):
    """Write ArrayLike for what it stands for; errors are all made alike, so only their base says how."""
    if what == "exception" and "__init__" not in vars(thing):
        return "", None
    long = stringify_annotation(ArrayLike, "smart")
    return tuple(text and text.replace(long, "ArrayLike") for text in (signature, returns))


def fold(app, doctree, name):
    """Let long tables of `onlinehash experiment table` open at a click: above each is a figure of it."""
    for table in [*doctree.findall(nodes.table)]:
        header, *rows = table.findall(nodes.row)
        if [cell.astext() for cell in header][:2] != ["set", "contestant"] or len(rows) <= LONG_TABLE:
            continue
        place, parent = table.parent.index(table), table.parent
        notes = parent[place + 1 : place + 2]
        last = place + 1 + isinstance(notes[0] if notes else None, nodes.bullet_list)
        summary = f"<details><summary>The table: {len(rows)} rows</summary>"
        parent.insert(last, nodes.raw("", "</details>", format="html"))
        parent.insert(place, nodes.raw("", summary, format="html"))


def mark_sizes(app, doctree, name):
    """Mark what the style sheet sets otherwise: cells with sentences, tables of many columns, long printed lines."""
    for cell in doctree.findall(nodes.entry):
        if len(cell.astext()) > WORDY:
            cell["classes"].append("words")
    for table in doctree.findall(nodes.table):
        if len([*next(table.findall(nodes.row)).findall(nodes.entry)]) > COLUMNS:
            table["classes"].append("many")
    for block in doctree.findall(nodes.literal_block):
        if max(map(len, block.astext().split("\n"))) > LINE:
            block["classes"].append("wide")


def fold_other_branches(app, name, template, context, doctree):
    """Let a page's list of pages show the branch it is on: all branches on all pages take half the time of a build."""
    if toctree := context.get("toctree"):
        context["toctree"] = lambda **options: toctree(**options | {"collapse": True})


def in_order(below: dict[str, list[str]], name: str):
    """A page and those below it, as a reader meets them."""
    yield name
    for part in below.get(name, []):
        yield from in_order(below, part)


def write_lists(app, error):
    """Write sitemap.xml for search engines and llms.txt, a list of all pages by parts, each with its first sentence."""
    if error or app.builder.format != "html":
        return
    pages = list(in_order(app.env.toctree_includes, "index"))
    addresses = {name: f"{html_baseurl}{app.builder.get_target_uri(name)}" for name in pages}
    urls = "".join(f"<url><loc>{address}</loc></url>\n" for address in addresses.values())
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    Path(app.outdir, "sitemap.xml").write_text(f"{head}{urls}</urlset>\n")
    about = {name: first_sentence(Path(app.builder.get_outfilename(name)).read_text()) for name in pages}
    summary = (DOCS / "index.md").read_text().split("\n\n")[1].replace("\n", " ")
    lines = [f"# {project}\n\n> {summary}\n"]
    for part in app.env.toctree_includes["index"]:
        lines.append(f"## {app.env.titles[part].astext()}\n")
        for name in in_order(app.env.toctree_includes, part):
            words = f": {about[name]}" if about[name] else ""
            lines.append(f"- [{app.env.titles[name].astext()}]({addresses[name]}){words}")
        lines.append("")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines))


def first_sentence(html: str) -> str:
    """What a page says of itself: its first paragraph that is not a list of links, up to a full stop."""
    article = html.partition("<article")[2].partition("</article>")[0]
    texts = (unescape(re.sub(r"<[^>]+>", "", words)) for words in re.findall(r"<p>(.*?)</p>", article, flags=re.DOTALL))
    sentences = (re.split(r"(?<=[.!?])\s", " ".join(text.split()))[0] for text in texts)
    return next((sentence for sentence in sentences if sentence != reference_pages.MEMBERS), "")


def setup(app):
    SearchEnglish.stem = cache(SearchEnglish.stem)  # pages share their words: a tenth of the time of a build
    reference_pages.write(DOCS / "reference" / "generated", reference_pages.pages())
    app.connect("source-read", point_to_repository)
    app.connect("autodoc-process-docstring", docstrings.convert, priority=100)  # before napoleon reads the sections
    app.connect("autodoc-process-signature", tidy_signature)
    app.connect("doctree-resolved", fold)
    app.connect("doctree-resolved", mark_sizes)
    app.connect("source-read", offer_notebook)
    app.connect("html-page-context", fold_other_branches, priority=400)  # before furo asks for the list
    app.connect("build-finished", write_lists)
    app.connect("build-finished", write_notebooks)
