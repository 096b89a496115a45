"""Write docs/explanation/accuracy.md's tables and figure: what each number of clients finds.

python scripts/accuracy_docs.py           write the tables between the markers, and the figure
python scripts/accuracy_docs.py --check   fail if the tables are not what would be written

Nothing is collected. For each number of clients the planner makes a plan, and its predicted
variance at a key that nobody holds gives the smallest share that stands out. For the top 20,
normal noise of that variance is added to the shares of the demo's sample that the plan's reports
carry, `RUNS` times: a plan for fewer items loses some of longer vectors.
"""

import argparse
import io
import math
import re
import sys
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

from faintly.core import FloatArray, IdArray, Plan, VectorBatch
from faintly.data import read_records, to_vectors, true_means
from faintly.demo.run import SAMPLE, SPARSITY
from faintly.mechanisms import mechanism_of
from faintly.planner import Candidate, make_plan, request_for, survey
from faintly.planner.error_model import smallest_visible
from faintly.planner.excess import carried_means
from faintly.planner.plots import COLOURS

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "accuracy.md"
FIGURE = ROOT / "docs" / "explanation" / "figures" / "accuracy.svg"
MARKED = re.compile(r"(<!-- accuracy -->\n).*?(<!-- /accuracy -->)", re.DOTALL)
CLIENTS = [10**power for power in range(4, 9)]
BETWEEN = [round(10 ** (4 + step / 4)) for step in range(17)]  # for curves
UNITS = {"event": (1.0, 2.0, 4.0), "user": (1.0, 2.0, 4.0)}
SPARSITIES, AT = (4, 16, 64), 2.0  # of the second table, and its epsilon
TOP, RUNS = 20, 20
SALT = bytes(16)  # of no consequence: nothing is hashed
Found = tuple[float, float]  # the smallest share that stands out, and the share of the top 20


class People(NamedTuple):
    """The packages of the sample, and the ids of all names, the largest true share first."""

    vectors: VectorBatch
    ids: IdArray

    def carried(self, plan: Plan) -> FloatArray:
        """Return the share of each name that the reports of a plan carry."""
        return carried_means(mechanism_of(plan), self.vectors, self.ids)


def people() -> People:
    """Return the sample that ships with the demo."""
    with as_file(files("faintly.demo") / SAMPLE) as path:
        records = read_records(path)
    names = [str(key) for key in records.keys]
    plan = make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=SPARSITY,
        clients=records.count,
        universe=names,
        salt=SALT,
    )
    vectors, ids = to_vectors(records, plan), plan.ids(names)
    return People(vectors, ids[np.argsort(-true_means(vectors, ids), kind="stable")])


def picked(unit: str, epsilon: float, clients: int, keys: int, sparsity: int) -> Candidate:
    """Return the planner's pick."""
    request = request_for(
        protect=unit,
        epsilon=epsilon,
        sparsity=sparsity,
        clients=clients,
        universe=keys,
        values="set",
    )
    return survey(request).pick


def found(sample: People, unit: str, epsilon: float, clients: int, sparsity: int) -> Found:
    """Return the smallest share that stands out, and the recall of the top 20."""
    keys = len(sample.ids)
    pick = picked(unit, epsilon, clients, keys, sparsity)
    noise = math.sqrt(pick.typical / clients)  # at a key that nobody holds
    return smallest_visible(noise, keys), recall(sample.carried(pick.plan), noise)


def recall(truth: FloatArray, noise: float) -> float:
    """Return the share of the true top 20 that is among the 20 largest estimates."""
    hits = []
    for run in range(RUNS):
        noisy = truth + noise * np.random.default_rng(run).standard_normal(len(truth))
        listed = np.argpartition(-noisy, TOP)[:TOP]
        hits.append((listed < TOP).mean())
    return float(np.mean(hits))


def lines(sample: People) -> list[str]:
    """Return both tables: what so many clients find, by unit and epsilon, and by sparsity."""
    made = _head("protect, ε")
    for unit, epsilons in UNITS.items():
        for epsilon in epsilons:
            cells = [_cell(sample, unit, epsilon, count, SPARSITY) for count in CLIENTS]
            made.append(f"| {unit}, {epsilon:g} | {' | '.join(cells)} |")
    made += ["", f"By the sparsity k, at ε = {AT:g}:", "", *_head("protect, k")]
    for unit in UNITS:
        for sparsity in SPARSITIES:
            cells = [_cell(sample, unit, AT, count, sparsity) for count in CLIENTS]
            made.append(f"| {unit}, {sparsity} | {' | '.join(cells)} |")
    return made


def _head(first: str) -> list[str]:
    counts = " | ".join(f"n = {count:,}" for count in CLIENTS)
    return [f"| {first} | {counts} |", "|---|" + "---:|" * len(CLIENTS)]


def _cell(sample: People, unit: str, epsilon: float, clients: int, sparsity: int) -> str:
    visible, share = found(sample, unit, epsilon, clients, sparsity)
    return f"{f'{visible:.2%}' if visible < 1 else 'none'}, {share:.0%}"


def figure(sample: People) -> str:
    """Return all curves as SVG: by epsilon above, by sparsity below."""
    plt.rcParams["svg.hashsalt"] = "accuracy"
    drawing, panels = plt.subplots(2, 2, figsize=(11, 8.2), layout="constrained")
    for line, (unit, epsilons) in zip(("-", "--"), UNITS.items(), strict=True):
        for colour, epsilon in zip(COLOURS, epsilons, strict=False):
            look = {"color": colour, "linestyle": line, "label": f"{unit}, ε = {epsilon:g}"}
            _curve(panels[0], sample, (unit, epsilon, SPARSITY), look)
    for colour, sparsity in zip(COLOURS, SPARSITIES, strict=False):
        look = {"color": colour, "linestyle": "--", "label": f"user, k = {sparsity}"}
        _curve(panels[1], sample, ("user", AT, sparsity), look)
    for (left, right), title in zip(panels, (f"k = {SPARSITY}", f"ε = {AT:g}"), strict=True):
        left.set_ylim(1e-4, 1)
        left.set_ylabel("smallest share that stands out")
        right.set_ylim(0, 1.02)
        right.set_ylabel(f"share of the true top {TOP} found")
        left.set_title(title, loc="left")
        right.legend(frameon=False)
    for axes in panels.flat:
        axes.set_xlabel("clients")
        axes.grid(True, color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    drawing.savefig(out, format="svg", metadata={"Date": None})
    plt.close(drawing)
    return "\n".join(row.rstrip() for row in out.getvalue().splitlines()) + "\n"


def _curve(
    panels: Sequence[Any],
    sample: People,
    case: tuple[str, float, int],
    look: dict[str, str],
) -> None:
    """Draw what stands out, and what is found, over the number of clients."""
    unit, epsilon, sparsity = case
    each = [found(sample, unit, epsilon, count, sparsity) for count in BETWEEN]
    panels[0].loglog(BETWEEN, [visible for visible, _ in each], **look)
    panels[1].semilogx(BETWEEN, [share for _, share in each], **look)


def main() -> int:
    """Write the page and its figure, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description="Write what how many clients find.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    sample = people()
    text = PAGE.read_text(encoding="utf-8")
    body = "\n".join(lines(sample))
    made, count = MARKED.subn(lambda match: f"{match[1]}\n{body}\n\n{match[2]}", text)
    if count != 1:
        raise SystemExit(f"{PAGE.name} needs one pair of markers, <!-- accuracy --> and its end")
    if options.check:
        if made != text:
            print(f"{PAGE.name}: not what plans predict; run: python scripts/accuracy_docs.py")
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    FIGURE.write_text(figure(sample), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
