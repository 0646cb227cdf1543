"""What happens around a run."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest

from onlinehash.experiments import runner
from onlinehash.experiments.plan import cells, read_plan
from onlinehash.experiments.readings import known_readings
from onlinehash.experiments.results import Result
from onlinehash.experiments.sources import find_sets


@pytest.mark.parametrize("line", ["OH", "OH, linear"])
def test_timed_runs_are_warmed_up_by_what_they_run(line, tmp_path):
    """The kernels of a learner with features are others than those of one without."""
    sets = find_sets(["photo-tourism=digits"])
    setting = next(cell.setting for cell in cells(read_plan("kernel"), sets) if cell.line == line)
    nothing = Result(setting, [], None, {})
    runner._warm_up.cache_clear()
    with (
        mock.patch.object(runner.registry, "find") as find,
        mock.patch.object(runner.measurement, "measure", return_value=nothing),
    ):
        runner.execute(runner.Job(setting, sets[0].path, str(tmp_path), True, line))
    runner._warm_up.cache_clear()
    has_features = find.return_value.call_args.kwargs["features"] is not None
    assert has_features == (setting.parameters.get("features") is not None) == (line == "OH")


def test_runs_that_share_a_split_and_anchors_come_together():
    plans = [read_plan("online"), read_plan("batch"), read_plan("online").under(known_readings()["raw"])]
    every = [cell for plan in plans for cell in cells(plan, find_sets([]))]
    jobs = [runner.Job(cell.setting, f"{cell.set.path} {cell.set.role.name}", "", False, "") for cell in every]
    ordered = runner._sharing(jobs)
    assert sorted(map(id, ordered)) == sorted(map(id, jobs))
    places = [(job.path, job.setting.conditions.get("vectors"), job.setting.seed) for job in ordered]
    assert len(list(itertools.groupby(places))) == len({*places}) == 2 * (5 + 3)
