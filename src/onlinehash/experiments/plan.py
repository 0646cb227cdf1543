"""A plan is one figure: who is compared, on what, under which conditions, along which axis. One TOML file each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from onlinehash.errors import InvalidInput
from onlinehash.experiments import methods, toml
from onlinehash.experiments.adapter import ExactSearch
from onlinehash.experiments.plan_checks import FOUND, MEASURED, check, check_conditions
from onlinehash.experiments.readings import OURS, SEEDS, Reading
from onlinehash.experiments.results import Result
from onlinehash.experiments.roles import NamedSet
from onlinehash.experiments.settings import Setting
from onlinehash.experiments.toml import Conditions, Parameters, Value

if TYPE_CHECKING:
    from onlinehash.learners.base import Learner

#: σ of the kernel, the paper's, on vectors of unit length.
WIDTH = 1.0
#: Search without feedback, beside which quality is shown: in the vectors themselves, and by codes made of them alone.
REFERENCES = ("Float", "ITQ")
#: What can be varied of pairs alone, and so changes no search without them.
OF_PAIRS = ("conditions.similar_share", "conditions.wrong_share")


@dataclass(frozen=True)
class Drawing:
    """How a plan is shown.

    x: "values" (the last look of each run against what is varied) or "pairs" (all looks along the stream).
    y: the name of what was measured.
    """

    x_label: str
    y_label: str = "mean average precision (mAP)"
    x: str = "values"
    y: str = "map"
    log_x: bool = False
    log_y: bool = False
    #: Varied values are lines of their own, where x is "pairs".
    lines_by_value: bool = False


@dataclass(frozen=True)
class Contestant:
    """Who takes part; see `plans/_contestants.toml`.

    form: which form of search it stands for, where a run measures several.
    """

    label: str
    method: str
    form: str = ""
    kernel: int | None = None
    models: int | None = None
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """One figure.

    vary, values: the axis: "bits", a parameter of the methods, "features.NAME", or "conditions.NAME". A method without
        that parameter runs once, and is a level line.
    roles: the roles of sets that it is for; empty for all.
    rival: the contestant that tables compare the others with.
    alone: timing, so nothing else may run beside it.
    quick: what to change for a first look; `conditions` in it are merged.
    reading: how what the paper leaves open is read.
    """

    name: str
    title: str
    question: str
    source: str
    drawing: Drawing
    contestants: tuple[str, ...]
    conditions: Conditions
    bits: int = 64
    vary: str = "bits"
    values: tuple[Value, ...] = (64,)
    seeds: int = 5
    roles: tuple[str, ...] = ()
    rival: str = "OH"
    alone: bool = False
    quick: Mapping[str, Any] = field(default_factory=dict)
    is_quick: bool = False
    reading: Reading = OURS

    @property
    def references(self) -> tuple[str, ...]:
        """Who is shown beside the contestants, where quality is what is measured."""
        return tuple(label for label in REFERENCES if label not in self.contestants and self.drawing.y in FOUND)

    def showing(self, measured: str) -> Plan:
        """The same with another thing measured on the y axis, and in tables."""
        if measured not in MEASURED:
            raise InvalidInput(expected=f"something measured among {', '.join(MEASURED)}", got=repr(measured))
        return replace(self, drawing=replace(self.drawing, y=measured, y_label=measured))

    def made_quick(self) -> Plan:
        """The same at a size for a first look."""
        changes: dict[str, Any] = {"title": f"{self.title} (quick)", "seeds": 2, "roles": ()}
        for key, value in self.quick.items():
            changes[key] = tuple(value) if isinstance(value, list) else value
        changes["conditions"] = {**self.conditions, "pairs": 1500, **self.quick.get("conditions", {})}
        other = {name: value for name, value in self.reading.conditions.items() if name != "pairs"}
        changes["reading"] = replace(self.reading, conditions=other)
        return replace(self, **changes, is_quick=True)

    def under(self, reading: Reading) -> Plan:
        """The same under another reading of the paper, at those of its own lengths that the reading has."""
        values = self.values
        if reading.values and self.vary == "bits":
            values = tuple(value for value in values if value in reading.values)
        seeds = min(self.seeds, SEEDS) if reading.name else self.seeds
        return replace(self, values=values, seeds=seeds, reading=reading)


@dataclass(frozen=True)
class Cell:
    """A run of a plan and its place in the figure.

    who: the contestant that ran in the place of the one that `line` names; itself, unless a reading says otherwise.
    """

    plan: str
    set: NamedSet
    line: str
    value: Value
    setting: Setting
    who: str
    reading: str = ""
    is_reference: bool = False

    @property
    def seed(self) -> int:
        """Which of the repetitions."""
        return self.setting.seed

    def read(self, result: Result) -> Result:
        """What a run says about this contestant."""
        form = contestant(self.line).form
        return result.of_form(form) if form else result


def plans(names: Sequence[str]) -> list[Plan]:
    """By name, or `all`, or the path of a TOML file of yours."""
    known = toml.names()
    wanted = known if list(names) == ["all"] else list(names)
    for name in wanted:
        if name not in known and not name.endswith(".toml"):
            raise InvalidInput(expected=f"a plan among {', '.join(known)}, all, or a .toml file", got=repr(name))
    return [read_plan(name) for name in wanted]


def read_plan(name: str) -> Plan:
    """One plan."""
    what = f"the plan {name}"
    document = toml.read(name)
    drawing = toml.make(Drawing, document.pop("drawing", {}), f"[drawing] of {what}")
    if "reading" in document:
        raise InvalidInput(f"readings are chosen by --reading, got one in {what}.")
    short = name.rsplit("/", 1)[-1].removesuffix(".toml")
    plan = toml.make(Plan, {"name": short, "drawing": drawing, **document}, what)
    for key in plan.quick:
        if key not in ("bits", "values", "seeds", "contestants", "conditions"):
            raise InvalidInput(
                expected=f"bits, values, seeds, contestants or conditions in [quick] of {what}", got=repr(key)
            )
    check(plan, lambda label: set(methods.find(contestant(label).method)().get_params(deep=False)))
    if plan.quick:
        check_conditions(plan.made_quick().conditions, what)
    return plan


@cache
def contestant(label: str) -> Contestant:
    """By its label; or any method of the registry, with its defaults."""
    known = toml.read("_contestants")
    if label in known:
        return toml.make(Contestant, {"label": label, **known[label]}, f"the contestant {label}")
    return Contestant(label, methods.find(label).__name__)


def cells(plan: Plan, sets: Sequence[NamedSet], others: Sequence[str] = ()) -> Iterator[Cell]:
    """All runs of a plan; `others` are methods that take part besides. References come last."""
    taking_part = dict.fromkeys((*plan.contestants, *others))
    for data in sets:
        if (plan.roles and data.role.name not in plan.roles) or not _is_possible(plan, data):
            continue
        for label in dict.fromkeys((*taking_part, *plan.references)):
            is_reference = label not in taking_part
            make = _reference_setting if is_reference else _setting
            stand_ins = map(contestant, plan.reading.stand_ins(label))
            for who in (one for one in stand_ins if _can_learn(one, data)):
                for value, seed in itertools.product(plan.values, range(plan.seeds)):
                    setting = make(plan, data, who, value, seed)
                    yield Cell(plan.name, data, label, value, setting, who.label, plan.reading.name, is_reference)


def _is_possible(plan: Plan, data: NamedSet) -> bool:
    """Only what asks for neighbours can do without labels."""
    return data.role.truth == "labels" or plan.conditions["protocol"] == "retrieval"


def _can_learn(who: Contestant, data: NamedSet) -> bool:
    """Methods that need labels stay away where there are none, unless similar pairs will do."""
    method = methods.find(who.method)
    return data.role.truth == "labels" or method.traits.learns_from != "labels" or hasattr(method, "fit_similarities")


@cache
def _defaults(method: type[Learner]) -> Parameters:
    """The parameters of a method; kept, as they are looked up for each cell."""
    parameters: Parameters = method().get_params(deep=False)
    return parameters


def _setting(plan: Plan, data: NamedSet, who: Contestant, value: Value, seed: int) -> Setting:
    method = methods.find(who.method)
    has = _defaults(method)
    wanted = dict(data.role.parameters)
    conditions = {**data.role.conditions(), **plan.conditions, **_changed_by(plan.reading, method, data)}
    if conditions["protocol"] == "feedback" and method.traits.learns_from != "pairs":  # marks say nothing to it
        conditions = conditions | {"marks": "random", "wrong_share": 0.0}
    features = None
    if who.kernel is not None:
        features = {"n_anchors": who.kernel, "width": WIDTH, "normalize": True, **plan.reading.features}
    n_bits = plan.reading.bits or plan.bits
    room, _, name = plan.vary.rpartition(".")
    if method is ExactSearch:  # floats have no code: one run for all lengths
        n_bits = plan.bits
    elif plan.vary == "bits":
        n_bits = cast(int, value)  # `check` has seen to that
    elif room == "conditions":
        conditions[name] = value
    elif room == "features":
        features = features and features | {name: value}
    else:
        wanted[plan.vary] = value
    wanted = {**plan.reading.parameters, **wanted, **who.parameters, "features": features}
    if choose := {name: values for name, values in plan.reading.choose.items() if name in has}:
        conditions = conditions | {"choose": choose}
    if who.models is not None:
        wanted["n_models"] = who.models
        n_bits //= who.models
    # A value that is the default anyway makes no other run; what a method does not have says nothing to it.
    parameters = {name: wanted[name] for name in wanted if name in has and wanted[name] != has[name]}
    names = data.name, data.fingerprint, data.role.name
    return Setting(*names, conditions, method.__name__, parameters, n_bits, seed)


def _reference_setting(plan: Plan, data: NamedSet, who: Contestant, value: Value, seed: int) -> Setting:
    """Of what a plan varies, only what is stored and what is asked change a reference, and nothing that is taught.

    Beside several models it gets the bits of all of them.
    """
    length = plan.reading.bits or plan.bits
    if plan.vary == "n_models":
        length *= cast(int, value)
    elif plan.vary == "bits" or (plan.vary.startswith("conditions.") and plan.vary not in OF_PAIRS):
        return _setting(plan, data, who, value, seed)
    return _setting(replace(plan, vary="bits"), data, who, length, seed)


def _changed_by(reading: Reading, method: type[Learner], data: NamedSet) -> Conditions:
    """The conditions of a reading that can change a result, so that no other run is made again.

    Nobody looks for neighbours where there are labels, a batch method learns from all rows anyway, and exact search
    learns nothing.
    """
    untouched = {"neighbours"} if data.role.truth == "labels" else set()
    if method.traits.unit == "batch" or method is ExactSearch:
        untouched.add("pairs")
    return {name: value for name, value in reading.conditions.items() if name not in untouched}


def as_document(plan: Plan) -> dict[str, Any]:
    """For machines."""
    return asdict(plan)
