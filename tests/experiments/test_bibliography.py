"""What to cite: an entry for every method, in BibTeX that can be read back, with what the method's own file says."""

import inspect
import re

import pytest

from onlinehash.errors import UnknownMethod
from onlinehash.experiments import bibliography
from onlinehash.learners import registry
from tests.cli.running import done

NAMES = [method.name for method in registry.METHODS]
OURS = ("BlendedPairHashing", "SmoothPairHashing", "MiniBatchOnlineHashing")


def fields_of(text):
    """Kind, key and fields of one entry; fails on anything that is not BibTeX of this shape."""
    head = re.fullmatch(r"@(\w+)\{([\w-]+),\n(.*)\}", text, re.DOTALL)
    lines = head[3].splitlines()
    fields = [re.fullmatch(r"  (\w+) = \{(.*)\},", line).groups() for line in lines]
    for _, value in fields:
        assert value.count("{") == value.count("}")
    assert len(dict(fields)) == len(fields)
    return head[1], head[2], dict(fields)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_an_entry_that_says_what_its_file_says(name):
    kind, _, fields = fields_of(bibliography.bibtex(name))
    if name in OURS:
        assert kind == "misc"
        assert "author" not in fields
        assert "onlinehash" in fields["title"]
        return
    cited = inspect.getdoc(inspect.getmodule(registry.find(name))).replace("\n", " ").lower()
    assert fields["title"].strip("{}").lower() in cited
    assert name == "MultiModelOnlineHashing" or fields["year"] in cited  # which leaves the rest to online_hashing
    for author in fields["author"].split(" and "):
        assert author == "others" or author.partition(",")[0].lower() in cited


def test_an_entry_by_hand():
    assert bibliography.bibtex("osh") == (
        "@inproceedings{leng2015online,\n"
        "  author = {Leng, Cong and Wu, Jiaxiang and Cheng, Jian and Bai, Xiao and Lu, Hanqing},\n"
        "  title = {{Online sketching hashing}},\n"
        "  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},\n"
        "  year = {2015},\n"
        "}"
    )


def test_all_of_them_once_the_paper_first():
    parts = bibliography.all_bibtex().split("\n\n")
    named = [name for part in parts for name in part.partition("\n")[0].removeprefix("% ").split(", ")]
    assert sorted(named) == sorted(NAMES)
    keys = [fields_of(part.partition("\n")[2])[1] for part in parts]
    assert keys[0] == "huang2017online"
    assert len(set(keys)) == len(keys) == 21  # 24 methods: OH and MMOH share one, and our three do
    assert parts[0].startswith("% OnlineHashing, MultiModelOnlineHashing\n")


def test_a_method_that_nobody_knows_and_one_of_others(monkeypatch):
    with pytest.raises(UnknownMethod, match="there is no method"):
        bibliography.bibtex("XYZ")
    monkeypatch.delitem(bibliography.ENTRIES, "LSH")
    with pytest.raises(UnknownMethod, match="ask its authors"):
        bibliography.bibtex("LSH")


def test_from_the_command_line():
    assert done("methods", "--bibtex").out == bibliography.all_bibtex() + "\n"
    rows = done("methods", "--json").document
    assert {row["name"]: row["bibtex"] for row in rows} == {name: bibliography.bibtex(name) for name in NAMES}
