"""Several mechanisms on the same data, for the unit, the budget and the sizes of one plan.

The plan itself represents its mechanism. Every other mechanism takes part in the form that the
planner ranks best, under the plan's salt, so that keys have the same ids. All have the same number
of runs and the same seed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from faintly.core import FloatArray, IdArray, Plan, VectorBatch
from faintly.core.plan import Terms, shared_fields
from faintly.errors import FaintlyError
from faintly.mechanisms import mechanism_class, mechanism_names, mechanism_of
from faintly.planner import PlanRequest, survey
from faintly.simulate.run import simulate
from faintly.simulate.scores import Simulation

ALL = "all"  # every mechanism that the planner would choose from; baselines are named one by one

NARROW = {
    "signed": "it takes values of either sign",
    "nonnegative": "it takes no negative values",
    "set": "it takes sets, no other values",
}

OnStep = Callable[[str, int, int], None]
Form = tuple[str, Plan, tuple[str, ...]]  # title, plan and drawbacks


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A mechanism that could not take part, and the rule that excludes it."""

    mechanism: str
    reason: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One mechanism, the plan that it took part with, and how it did."""

    title: str
    plan: Plan
    drawbacks: tuple[str, ...]
    result: Simulation

    def document(self) -> dict[str, Any]:
        """Return the document of its simulation, with its title, drawbacks and plan."""
        return {
            "mechanism": self.plan.mechanism,
            "title": self.title,
            "drawbacks": list(self.drawbacks),
            **self.result.document(),
            "plan": self.plan.document(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All mechanisms that took part, the smallest error first, and those that could not."""

    plan: Plan
    compared: tuple[Compared, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def of_plan(self) -> Simulation:
        """Return how the plan itself did."""
        return next(one.result for one in self.compared if one.plan is self.plan)

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "compared": [one.document() for one in self.compared],
            "left_out": [asdict(one) for one in self.left_out],
        }


def compare(
    plan: Plan,
    names: Iterable[str],
    vectors: VectorBatch,
    ids: IdArray,
    truth: FloatArray,
    *,
    runs: int,
    seed: int,
    on_step: OnStep = lambda *_: None,
) -> Comparison:
    """Return the plan and the named mechanisms on the same vectors, the smallest n·MSE first.

    Args:
        plan: takes part itself, and sets the terms for the others.
        names: mechanisms to compare it with, those of other packages and baselines included;
            "all" stands for every one that the planner chooses from.
        vectors: one per client, empty ones included, with all that they hold.
        ids: keys to ask about.
        truth: true mean of each of them.
        runs: number of runs of each mechanism.
        seed: of all of them; see `simulate`.
        on_step: called before each mechanism and after each run, with the mechanism, the runs
            that are done and the runs in all.
    """
    forms: list[Form] = [(f"{plan.mechanism} (the plan)", plan, ())]
    left_out, compared = [], []
    for name in _expanded(names):
        found = None if name == plan.mechanism else _best_form(name, plan)
        if isinstance(found, str):
            left_out.append(LeftOut(name, found))
        elif found is not None:
            forms.append(found)
    for place, (title, own, drawbacks) in enumerate(forms):
        step = partial(_step, on_step, title, count(place * runs), runs * len(forms))
        step()
        try:
            result = simulate(own, vectors, ids, truth, runs=runs, seed=seed, on_run=step)
        except FaintlyError as error:
            if own is plan:  # then the data do not suit the plan
                raise
            left_out.append(LeftOut(own.mechanism, str(error)))
        else:
            compared.append(Compared(title, own, drawbacks, result))
    compared.sort(key=lambda one: one.result.mean("n_mse"))
    return Comparison(plan=plan, compared=tuple(compared), left_out=tuple(left_out))


def _step(on_step: OnStep, title: str, done: Iterator[int], total: int) -> None:
    on_step(title, next(done), total)


def _expanded(names: Iterable[str]) -> list[str]:
    """Return every name once, in order; an unknown one is refused with a list of all names."""
    listed: dict[str, None] = {}
    for name in names:
        if name == ALL:
            listed |= dict.fromkeys(mechanism_names(baselines=False))
        else:
            listed[mechanism_class(name).name] = None
    return list(listed)


def _best_form(name: str, plan: Plan) -> Form | str:
    """Return the form that `faintly plan --mechanism NAME` would choose, or why there is none."""
    ranking = survey(PlanRequest(**shared_fields(plan, Terms), mechanism=name))
    if not ranking.candidates:
        reasons = dict.fromkeys(one.reason for one in ranking.refused)
        return "; ".join(reasons) or "its error has no bound"
    best, domain = ranking.pick, mechanism_of(ranking.pick.plan).domain
    # A mechanism for fewer kinds of values may have a smaller error, so this is reported.
    narrow = (NARROW[domain],) if domain != mechanism_of(plan).domain else ()
    return best.title, replace(best.plan, salt=plan.salt), (*best.drawbacks, *narrow)
