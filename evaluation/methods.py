"""The methods that are compared, as data: a label, a mechanism with its options, a look.

A method is shown only where its guarantee holds: at its `units`. Where its mechanism still refuses
a point, the refusal is recorded and the method is left out there.
Mechanisms of other packages, by their entry points, are methods too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any

from faintly.core import Plan
from faintly.errors import UnsupportedUnit
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.registry import MECHANISMS
from faintly.planner import make_plan, request_for, survey

SWEEP_GROUPS = 64  # of projection-choice; 256 would gain 1 % in n·Var and take four times as long
DELTA = 1e-5  # the paper's, for Gaussian noise and for its squeezed bound
EVENT, USER, L1 = "event", "user", "l1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a method is drawn: colour, marker and line."""

    colour: str
    marker: str
    line: Any = "-"
    width: float = 1.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One curve, or one row of a table."""

    name: str
    label: str
    mechanism: str | None  # None: what the planner picks
    units: tuple[str, ...]
    look: Look
    options: Mapping[str, Any] = field(default_factory=dict)
    delta: float = 0.0
    hard_sparsity: bool = False
    stronger: bool = False  # at l1, the user-level form may run: it hides any change at all
    decode: str | None = None  # where few keys are read; None: tables where possible
    values: str = "signed"  # what the planner is told about the data, where it picks
    patient: bool = False  # decoded as the planner picks, even if that reads every report

    def protects(self, unit: str) -> bool:
        """Return whether the method claims to protect the unit."""
        return unit.partition(":")[0] in self.units

    def plan(
        self,
        *,
        unit: str,
        epsilon: float,
        sparsity: int,
        clients: int,
        universe: int,
        decode: str | None,
        salt: bytes,
    ) -> Plan:
        """Return the method's plan, or raise the mechanism's own refusal."""
        terms: dict[str, Any] = {
            "protect": unit,
            "epsilon": epsilon,
            "sparsity": sparsity,
            "clients": clients,
            "universe": universe,
            "delta": self.delta,
            "hard_sparsity": self.hard_sparsity,
        }
        if self.mechanism is not None:
            # By default tables, and direct decoding where there are none.
            own = self.decode if decode is None else None
            return self._named({**terms, "decode": own, **self.options, "salt": salt})
        required = None if self.patient else decode
        ranking = survey(request_for(decode=required, values=self.values, **terms))
        fast = [
            one
            for one in ranking.candidates
            if one.options.get("groups", 0) <= SWEEP_GROUPS and not one.drawbacks
        ]
        return replace((fast or [ranking.pick])[0].plan, salt=salt)

    def _named(self, terms: dict[str, Any]) -> Plan:
        """Return the plan of the named mechanism, in the form with the smallest variance."""
        if not (self.stronger and terms["protect"].startswith(L1)):
            return make_plan(mechanism=self.mechanism, **terms)
        found = []
        for protect in (USER, terms["protect"]):  # user first: it wins ties, as it hides more
            try:
                found.append(make_plan(mechanism=self.mechanism, **{**terms, "protect": protect}))
            except UnsupportedUnit:  # most have no form of their own for a distance
                continue
        if not found:
            raise UnsupportedUnit(f"{self.mechanism} protects neither {terms['protect']} nor user")
        return min(found, key=lambda plan: predicted(plan, terms["sparsity"]))


def predicted(plan: Plan, sparsity: int) -> float:
    """Return n·Var for clients whose k values are all ±1, by which forms are chosen."""
    return mechanism_of(plan).forecast.variance(float(sparsity))


# Okabe and Ito's palette without its yellow, which is too pale on white.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
DASHED, DOTTED, DASH_DOT = (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2))

ZERO = Method(
    name="zero",
    label="all-zero answer",
    mechanism=None,
    units=(EVENT, USER, L1),
    look=Look(colour=GREY, marker="", line=DOTTED, width=1.6),
)

METHODS = {
    method.name: method
    for method in (
        Method(
            name="ours",
            label="ours",
            mechanism=None,
            units=(EVENT, USER, L1),
            look=Look(colour=BLUE, marker="o", width=2.4),
        ),
        Method(
            name="ours-limited",
            label="ours, never over k items",
            mechanism=None,
            units=(L1,),
            hard_sparsity=True,
            look=Look(colour=BLUE, marker="s", line=DASHED, width=2.0),
        ),
        Method(
            name="ours-sets",
            label="ours, for sets",
            mechanism=None,
            values="set",
            patient=True,
            units=(EVENT, USER),
            look=Look(colour=BLUE, marker="p", line=DASHED, width=2.0),
        ),
        Method(
            name="paper",
            label="paper",
            mechanism="signed-binning",
            decode="direct",  # with the paper's own hashing and number of bins
            units=(EVENT, USER, L1),
            stronger=True,
            look=Look(colour=VERMILLION, marker="s", width=2.0),
        ),
        Method(
            name="paper-squeeze",
            label="paper, squeeze (δ = 1e-5)",
            mechanism="signed-binning",
            options={"row": "squeeze", "decode": "direct"},  # its hash has no tables
            delta=DELTA,
            hard_sparsity=True,  # a condition of its theorem
            units=(L1,),
            look=Look(colour=VERMILLION, marker="^", line=DOTTED),
        ),
        Method(
            name="published",
            label="authors' settings",
            mechanism="signed-binning-published",
            decode="direct",
            units=(EVENT, USER),
            look=Look(colour=VERMILLION, marker="D", line=DASHED),
        ),
        Method(
            name="k-fold",
            label="k-fold",
            mechanism="k-fold",
            units=(EVENT,),
            look=Look(colour=GREEN, marker="^", line=DASHED),
        ),
        Method(
            name="k-fold-optimal",
            label="k-fold, optimal hashing",
            mechanism="k-fold",
            options={"scheme": "optimal"},
            units=(EVENT,),
            look=Look(colour=GREEN, marker="<", line=DOTTED),
        ),
        Method(
            name="sampling",
            label="sampling",
            mechanism="sampling",
            units=(USER, L1),
            stronger=True,
            look=Look(colour=GREEN, marker="v", line=DASH_DOT),
        ),
        Method(
            name="sampling-optimal",
            label="sampling, optimal hashing",
            mechanism="sampling",
            options={"scheme": "optimal"},
            units=(USER, L1),
            stronger=True,
            look=Look(colour=GREEN, marker=">", line=DOTTED),
        ),
        Method(
            name="naive",
            label="naive, Gaussian (δ = 1e-5)",
            mechanism="naive",
            options={"noise": "gaussian"},
            delta=DELTA,
            units=(EVENT, USER, L1),
            look=Look(colour=PURPLE, marker="P"),
        ),
        Method(
            name="naive-laplace",
            label="naive, Laplace",
            mechanism="naive",
            options={"noise": "laplace"},
            units=(EVENT, USER, L1),
            look=Look(colour=PURPLE, marker="X", line=DASHED),
        ),
        Method(
            name="naive-response",
            label="naive, randomized response",
            mechanism="naive",
            options={"noise": "response"},
            units=(EVENT, USER),
            look=Look(colour=PURPLE, marker="*", line=DOTTED),
        ),
        Method(
            name="harmony",
            label="Harmony",
            mechanism="harmony",
            units=(USER, L1),
            stronger=True,
            look=Look(colour=ORANGE, marker="<", line=DASH_DOT),
        ),
        Method(
            name="pckv",
            label="PCKV-GRR",
            mechanism="pckv",
            options={"form": "grr"},
            units=(USER, L1),
            stronger=True,
            look=Look(colour=SKY, marker="D", line=DASHED),
        ),
        Method(
            name="pckv-ue",
            label="PCKV-UE",
            mechanism="pckv",
            options={"form": "ue"},
            units=(USER, L1),
            stronger=True,
            look=Look(colour=SKY, marker="H"),
        ),
        Method(
            name="privkv",
            label="PrivKV",
            mechanism="privkv",
            units=(USER,),
            look=Look(colour=BLACK, marker="p", line=DOTTED),
        ),
        Method(
            name="collision",
            label="collision (sets)",
            mechanism="collision",
            units=(USER,),
            look=Look(colour=BLACK, marker="d", line=DASHED),
        ),
        Method(
            name="collision-signed",
            label="collision, signed",
            mechanism="collision-signed",
            units=(USER, L1),
            stronger=True,
            look=Look(colour=BLACK, marker="D", line=DASHED),
        ),
        Method(
            name="wheel",
            label="wheel (sets)",
            mechanism="wheel",
            units=(USER,),
            look=Look(colour=BLACK, marker=">", line=DASH_DOT),
        ),
        Method(
            name="alp",
            label="ALP",
            mechanism="alp",
            units=(EVENT,),
            look=Look(colour=BLACK, marker="X", line=DASHED),
        ),
        Method(
            name="retrieval",
            label="retrieval, direct",
            mechanism="retrieval",
            options={"decode": "direct"},
            units=(EVENT,),
            look=Look(colour=BLUE, marker="D", line=DOTTED),
        ),
        Method(
            name="retrieval-table",
            label="retrieval, table",
            mechanism="retrieval",
            options={"decode": "table"},
            units=(EVENT,),
            look=Look(colour=BLUE, marker="d", line=DASH_DOT),
        ),
        Method(
            name="retrieval-gf",
            label="retrieval-gf",
            mechanism="retrieval-gf",
            units=(EVENT,),
            look=Look(colour=BLUE, marker="^", line=DASHED),
        ),
        Method(
            name="retrieval-polynomial",
            label="retrieval-gf, never over k items",
            mechanism="retrieval-gf",
            options={"form": "polynomial"},
            hard_sparsity=True,
            units=(EVENT,),
            look=Look(colour=BLUE, marker="*", line=DASHED),
        ),
        Method(
            name="projection",
            label="projection-choice, 64 groups",
            mechanism="projection-choice",
            options={"groups": SWEEP_GROUPS},
            units=(USER,),
            look=Look(colour=BLUE, marker="v", line=DASHED),
        ),
        Method(
            name="projection-256",
            label="projection-choice, 256 groups",
            mechanism="projection-choice",
            options={"groups": 256},
            units=(USER,),
            look=Look(colour=BLUE, marker=">", line=DOTTED),
        ),
        Method(
            name="projection-bins",
            label="projection-choice, bins",
            mechanism="projection-choice",
            options={"form": "bins"},
            units=(USER,),
            look=Look(colour=BLUE, marker="P", line=DASHED),
        ),
        Method(
            name="projection-direct",
            label="projection-choice, direct",
            mechanism="projection-choice",
            options={"groups": SWEEP_GROUPS, "decode": "direct"},
            units=(USER,),
            look=Look(colour=BLUE, marker="<", line=DASH_DOT),
        ),
    )
}

BUILT_IN = tuple(METHODS)  # used by experiments and claims; others run only by name
MARKERS = "osD^v<>PX*"


def _installed(names: Iterable[str]) -> dict[str, Method]:
    """Return a method for each mechanism that another package offers."""
    made = {}
    for place, mechanism in enumerate(sorted(names)):
        name = f"{mechanism}-installed" if mechanism in METHODS else mechanism
        made[name] = Method(
            name=name,
            label=name,
            mechanism=mechanism,
            units=(EVENT, USER, L1),  # it refuses the units that it does not protect
            stronger=True,
            look=Look(colour=GREY, marker=MARKERS[place % len(MARKERS)], line=DASHED),
        )
    return made


METHODS |= _installed(entry.name for entry in entry_points(group=MECHANISMS))
