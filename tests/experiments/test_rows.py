"""What of a store is shown for a plan."""

from __future__ import annotations

from onlinehash.experiments.plan import cells, read_plan
from onlinehash.experiments.results import Store
from onlinehash.experiments.rows import rows_of, rows_to_speak_of
from tests.experiments.made_up import made_up, named_sets


def test_runs_that_another_plan_left_are_no_figure_of_this_one(tmp_path):
    sets = named_sets("cifar10", "gist1m")
    store = Store(tmp_path)
    for row in made_up(read_plan("kernel"), sets):
        store.add(row.result)
    online = read_plan("online")
    assert len(rows_of(cells(online, sets), store)) > 0  # OH and MMOH at four lengths
    assert len(rows_to_speak_of(cells(online, sets), store)) == 0
    assert len(rows_to_speak_of(cells(read_plan("kernel"), sets), store)) == 2 * 4 * 4 * 5


def test_rows_are_chosen_by_any_of_their_attributes():
    rows = made_up(read_plan("beta"), named_sets("cifar10", "gist1m"))
    wanted = {"role": "gist1m", "line": "OH", "value": 0.4}
    chosen = [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]
    assert len(chosen) == 5
    assert list(rows.of(**wanted)) == chosen
    assert list(rows.of(value=0.4).of(line="OH", role="gist1m")) == chosen
    assert len(rows.of(plan="nobody's", line="OH")) == 0
    assert list(rows.of()) == list(rows)
