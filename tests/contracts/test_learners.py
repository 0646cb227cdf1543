"""The contract, over every learner that the registry knows."""

import pytest

from tests.contracts import input_contract, numeric_contract, stream_contract, use_contract
from tests.contracts.contract import CONTRACT, EXEMPT, Check
from tests.support import LEARNERS

THEMES = (input_contract, numeric_contract, stream_contract, use_contract)
CASES = [(check, name) for check in CONTRACT for name in CONTRACT[check] if (name, check.__name__) not in EXEMPT]


@pytest.mark.parametrize(("check", "name"), CASES, ids=[f"{check.__name__}-{name}" for check, name in CASES])
def test_contract(check: Check, name: str) -> None:
    check(name)


def test_every_check_runs_on_every_learner_that_is_not_exempt() -> None:
    checks = {check.__name__: kind for check, kind in CONTRACT.items()}
    assert len(CONTRACT) == len(checks) == 65, "a check was lost, or added: then count it here"
    assert {check.__module__ for check in CONTRACT} == {theme.__name__ for theme in THEMES}
    assert len(CASES) == sum(map(len, CONTRACT.values())) - len(EXEMPT)
    for name, cls in LEARNERS.items():
        of_this = sum(case == name for _, case in CASES)
        assert of_this >= (30 if cls.traits.unit == "batch" else 45), name
    for (name, check), reason in EXEMPT.items():
        assert name in checks[check]
        assert len(reason) > 20
