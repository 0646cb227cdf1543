import io
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from rich.console import Console

from onlinehash import demo
from onlinehash.demo import contest, digits
from onlinehash.errors import InvalidInput


def run_quietly(path, seed=0, **console_options):
    output = io.StringIO()
    console = Console(file=output, width=80, **console_options)
    return demo.run(path, seed, console), path.read_text(encoding="utf-8"), output.getvalue()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The demo as people run it, but for fewer points on the curves and one timed pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contest, "EVERY", 2500)
        patch.setattr(contest, "TIMED_PASSES", 1)
        yield run_quietly(tmp_path_factory.mktemp("demo") / "report.html")


# ------------------------------------------------------------------ results


def test_learning_helps_and_what_gets_no_feedback_stays_where_it_is(whole):
    floats, itq, blended, lsh, oh, mmoh, wide, plain = whole[0]
    for still in (floats, itq, lsh):
        assert (still.map_before, still.auc_before) == (still.map_after, still.auc_after)
        assert still.microseconds_per_pair is None
    assert abs(blended.map_before - itq.map_before) < 0.02  # where the recommended learner starts
    assert (oh.map_before, oh.auc_before) == (
        lsh.map_before,
        lsh.auc_before,
    )  # OH starts from the functions of LSH
    for learner in (blended, oh, mmoh, wide, plain):
        assert learner.map_after > learner.map_before + 0.2
        assert learner.auc_after > learner.auc_before + 0.06
        assert learner.microseconds_per_pair > 0
        assert learner.map_after > max(floats.map_after, itq.map_after)
    assert min(oh.map_after, mmoh.map_after, wide.map_after) > 0.9
    assert blended.map_after > wide.map_after  # with a quarter of its bits
    assert blended.cumulative_loss is None  # it counts another loss
    assert oh.cumulative_loss < lsh.cumulative_loss / 2
    assert [r.bits_per_item for r in whole[0]] == [2048, 32, 32, 32, 32, 128, 128, 32]


def test_the_data_keep_queries_and_stream_apart():
    data = digits.load(0, 5000)
    assert (len(data.X_base), len(data.X_query), len(data.stream.similar)) == (1500, 297, 5000)
    base, query = ({x.tobytes() for x in X} for X in (data.X_base, data.X_query))
    assert not base & query
    labels = {x.tobytes(): y for x, y in zip(data.X_base, data.y_base, strict=True)}
    labels |= {x.tobytes(): y for x, y in zip(data.X_query, data.y_query, strict=True)}
    for pairs, points in ((data.stream, base), (data.held_out, query)):
        for a, b, similar in zip(*pairs, strict=True):
            assert {a.tobytes(), b.tobytes()} <= points
            assert (labels[a.tobytes()] == labels[b.tobytes()]) == similar
            assert (a != b).any()
        assert abs(pairs.similar.mean() - 0.5) < 0.03


# ------------------------------------------------------------------ what is shown


class Page(HTMLParser):
    """Every tag closed in order, and every address that the page would ask for."""

    void = frozenset({"meta", "img", "br", "link"})

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.addresses, self.alone = [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag == "img":
            self.alone.append(dict(attrs).get("alt"))
        if tag not in self.void and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_is_one_sound_page_that_needs_nothing_else(whole):
    html = whole[1]
    page = Page(html)
    assert page.open == []
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert page.addresses
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    assert all(page.alone)  # a text for every picture
    assert not re.search(r"https?:|url\(|@import|\$[a-z]", html)
    assert "prefers-color-scheme: dark" in html


def test_the_report_tells_the_results(whole):
    results, html, _ = whole
    for r in results:
        for number in (r.map_before, r.map_after, r.auc_before, r.auc_after):
            assert f"{number:.3f}" in html
        assert r.name in html
        assert ("–" if r.cumulative_loss is None else f"{r.cumulative_loss:,.0f}") in html
    charts = [ET.fromstring(svg) for svg in re.findall(r'<svg class="chart".*?</svg>', html, re.DOTALL)]
    assert len(charts) == 4
    assert all(chart.find("title").text and chart.find("desc").text for chart in charts)
    names = [[text.text for text in chart.iter("text") if "name" in text.get("class")] for chart in charts]
    assert sorted(names[0]) == sorted(r.name for r in results)
    left_out = ("float cosine", "Blended pairs", "OH, 128 bits")  # whose losses are not comparable
    assert sorted(names[1]) == sorted(r.name for r in results if r.name not in left_out)
    assert names[2] == names[3] == ["same digit", "different"]


# ------------------------------------------------------------------ the parts


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_learned(tmp_path):
    for path in ("nowhere/report.html", "."):
        with pytest.raises(InvalidInput, match="cannot write the report"):
            demo.run(tmp_path / path)
    with pytest.raises(InvalidInput, match="seed"):
        demo.run(tmp_path / "report.html", seed=-1)
