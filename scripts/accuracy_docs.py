"""Write docs/explanation/accuracy.md's table and figure: what how many clients find.

python scripts/accuracy_docs.py           write the table between the markers, and the figure
python scripts/accuracy_docs.py --check   fail if they are not what would be written

Nothing is collected. For each number of clients the planner makes a plan, and its predicted
variance at a key that nobody holds gives the smallest share that stands out. For the top 20,
normal noise of that variance is added to the true shares of the demo's sample, `RUNS` times.
"""

import argparse
import io
import math
import re
import sys
from importlib.resources import as_file, files
from pathlib import Path

import matplotlib as mpl
import numpy as np

from faintly.core import FloatArray
from faintly.data import read_records, to_vectors, true_means
from faintly.demo.run import SAMPLE, SPARSITY
from faintly.planner import make_plan, request_for, survey
from faintly.planner.error_model import smallest_visible
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
TOP, RUNS = 20, 20
SALT = bytes(16)  # of no consequence: nothing is hashed


def shares() -> FloatArray:
    """Return the share of the sample's packages that use each name, the largest first."""
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
    vectors = to_vectors(records, plan)
    return np.sort(true_means(vectors, plan.ids(names)))[::-1]


def stderr(unit: str, epsilon: float, clients: int, keys: int) -> float:
    """Return the standard error that the planner's pick predicts at a key nobody holds."""
    request = request_for(
        protect=unit,
        epsilon=epsilon,
        sparsity=SPARSITY,
        clients=clients,
        universe=keys,
        values="set",
    )
    return math.sqrt(survey(request).pick.typical / clients)


def recall(truth: FloatArray, noise: float) -> float:
    """Return the share of the true top 20 that is among the 20 largest estimates."""
    found = []
    for run in range(RUNS):
        noisy = truth + noise * np.random.default_rng(run).standard_normal(len(truth))
        listed = np.argpartition(-noisy, TOP)[:TOP]
        found.append((listed < TOP).mean())
    return float(np.mean(found))


def lines(truth: FloatArray) -> list[str]:
    """Return the table: for each unit and epsilon what so many clients find."""
    made = ["| protect, ε | " + " | ".join(f"n = {count:,}" for count in CLIENTS) + " |"]
    made.append("|---|" + "---:|" * len(CLIENTS))
    for unit, epsilons in UNITS.items():
        for epsilon in epsilons:
            cells = []
            for count in CLIENTS:
                noise = stderr(unit, epsilon, count, len(truth))
                visible = smallest_visible(noise, len(truth))
                share = f"{visible:.2%}" if visible < 1 else "none"
                cells.append(f"{share}, {recall(truth, noise):.0%}")
            made.append(f"| {unit}, {epsilon:g} | {' | '.join(cells)} |")
    return made


def figure(truth: FloatArray) -> str:
    """Return both curves as SVG."""
    plt.rcParams["svg.hashsalt"] = "accuracy"
    drawing, panels = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for line, (unit, epsilons) in zip(("-", "--"), UNITS.items(), strict=True):
        for colour, epsilon in zip(COLOURS, epsilons, strict=False):
            noise = [stderr(unit, epsilon, count, len(truth)) for count in BETWEEN]
            seen = [smallest_visible(one, len(truth)) for one in noise]
            look = {"color": colour, "linestyle": line, "label": f"{unit}, ε = {epsilon:g}"}
            panels[0].loglog(BETWEEN, seen, **look)
            panels[1].semilogx(BETWEEN, [recall(truth, one) for one in noise], **look)
    panels[0].set_ylim(1e-4, 1)
    panels[0].set_ylabel("smallest share that stands out")
    panels[1].set_ylim(0, 1.02)
    panels[1].set_ylabel(f"share of the true top {TOP} found")
    for axes in panels:
        axes.set_xlabel("clients")
        axes.grid(True, color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    panels[1].legend(frameon=False)
    out = io.StringIO()
    drawing.savefig(out, format="svg", metadata={"Date": None})
    plt.close(drawing)
    return "\n".join(row.rstrip() for row in out.getvalue().splitlines()) + "\n"


def main() -> int:
    """Write the page and its figure, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description="Write what how many clients find.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    truth = shares()
    text = PAGE.read_text(encoding="utf-8")
    body = "\n".join(lines(truth))
    made, count = MARKED.subn(lambda match: f"{match[1]}\n{body}\n\n{match[2]}", text)
    if count != 1:
        raise SystemExit(f"{PAGE.name} needs one pair of markers, <!-- accuracy --> and its end")
    if options.check:
        if made != text:
            print(f"{PAGE.name}: not what plans predict; run: python scripts/accuracy_docs.py")
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    FIGURE.write_text(figure(truth), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
