"""What happens around a run."""

from __future__ import annotations

from unittest import mock

import pytest

from onlinehash.experiments import runner
from onlinehash.experiments.plan import cells, read_plan
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
