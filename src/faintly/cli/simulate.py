"""faintly simulate: how a plan, and other mechanisms, would do on known data."""

import math
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli.data_options import FileOptions, Rows
from faintly.cli.options import grouped, mechanisms, option, whole
from faintly.cli.output import ADVICE, Json, PlanFile, counted, emit, note, progress, say, table

if TYPE_CHECKING:
    from faintly.core import IdArray, Plan, VectorBatch
    from faintly.data import Records
    from faintly.simulate import Compared, Comparison, Simulation

Known = tuple["VectorBatch", "IdArray", Any]


@grouped
def simulate(
    plan: PlanFile,
    data: FileOptions,
    rows: Rows,
    runs: Annotated[int, whole("Independent runs.", least=1)] = 10,
    seed: Annotated[int, whole("Seed of hashing, noise and any cut.")] = 1,
    compare: Annotated[
        str | None,
        option(
            "Compare the plan with these mechanisms, each at its best; all: every mechanism except "
            "the baselines.",
            metavar="NAME[,NAME...]",
            autocompletion=lambda: ["all", *mechanisms()],
        ),
    ] = None,
    plot: Annotated[
        Path | None, option("With --compare: draw the comparison (.png, .svg).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Encode the data, decode it, and compare with the truth, several times over.

    The truth is the means of everything that clients hold. If some hold more than the plan's
    sparsity, another column compares with what reports carry. Noise is seeded: for study only,
    never for real reports.

    With --compare, other mechanisms serve the same unit, budget, sparsity, clients and universe,
    in one table, the smallest error first. The plan represents its own mechanism.
    """
    from faintly.engine.files import load_plan

    loaded = load_plan(plan)
    if plot is not None and compare is None:
        raise typer.BadParameter("it draws a comparison: add --compare", param_hint="--plot")
    if plot is not None:
        from faintly.planner.plots import pyplot

        pyplot(plot)  # a picture that cannot be drawn is refused before the work
    known = _known(loaded, rows.read(data))
    from faintly.simulate import compare as run_all

    names = [] if compare is None else [name.strip() for name in compare.split(",")]
    with progress() as bar:
        task = bar.add_task("simulating", total=None)
        bar.advance(task, 0)  # starts the clock, so that the first run predicts the others

        def show(title: str, done: int, total: int) -> None:
            bar.update(task, description=title, completed=done, total=total)

        result = run_all(loaded, names, *known, runs=runs, seed=seed, on_step=show)
    if plot is not None:
        from faintly.simulate.plots import draw

        draw(result, plot)
    shown = result.of_plan if compare is None else result
    if as_json:
        emit(shown.document() | {"runs": runs, "seed": seed})
    elif compare is None:
        _describe(result.of_plan)
    else:
        _describe_all(result)
        if plot is not None:
            say(f"drawn to {plot}")


def _known(plan: "Plan", records: "Records") -> Known:
    """Return what the clients hold, the keys to ask about, and their true means.

    All keys of the universe are asked about, or every key of the data where it is open.
    """
    import numpy as np

    from faintly.data import to_vectors, true_means

    vectors = to_vectors(records, plan)
    if len(vectors) > plan.clients:
        note(f"{len(vectors):,} clients, where the plan expects {plan.clients:,}; all report")
    vectors, size = vectors.padded(plan.clients), plan.universe.size
    ids = np.unique(vectors.indices) if size is None else np.arange(size, dtype=np.uint64)
    return vectors, ids, true_means(vectors, ids)


def _describe(result: "Simulation") -> None:
    """Print the means of all measures over the runs, and the true top keys."""
    names = {
        "linf": "largest error",
        "mse": "mean squared error",
        "n_mse": "n·MSE",
        "predicted_n_var": "predicted n·Var",
        "coverage95": "95 % cover, all keys",
        "coverage95_top20": "95 % cover, top 20",
        "bias_top20": "bias, true top 20",
        "bias_listed20": "bias, 20 largest",
        "top20_recall": "true top 20 found",
        "significant": "keys that stand out",
        "false_significant": "of these, held by nobody",
    }
    cut = result.excess.over > 0
    shown = {"unbiased": "truth"}
    shown |= {"posterior": "posterior"} if result.has_posterior else {}
    shown |= {"after the cut": "after_cut"} if cut else {}
    zero = {"linf": result.zero_linf, "mse": result.zero_mse}
    zero["n_mse"] = result.zero_mse * result.reports
    table(
        [counted(len(result.runs), "run"), *shown, "all-zero"],
        (
            [
                text,
                *(_cell(result, name, against) for against in shown.values()),
                f"{zero[name]:.3g}" if name in zero else "",
            ]
            for name, text in names.items()
        ),
    )
    table(
        ["true top keys", "truth", "after the cut", "answered", "bias", "its std. error"],
        (
            [str(place), *(f"{one:.5f}" for one in (*astuple(key)[:3], key.bias, key.stderr))]
            for place, key in enumerate(result.top, 1)
        ),
    )
    say(f"{result.reports:,} reports of {result.bytes} bytes, {result.keys:,} keys.")
    say(f"{result.excess.describe()} {ADVICE if cut else ''}".rstrip())
    if result.mean("significant") < 1:
        say(
            "Hardly any key stands out: collect from more clients, ask for less, or do not collect."
        )


def _cell(result: "Simulation", name: str, against: str) -> str:
    from faintly.simulate import SCORES

    if name not in SCORES and against != "truth":
        return ""  # of the run as a whole
    return _with_spread(result.mean(name, against), result.stderr(name, against), 3)


def _describe_all(comparison: "Comparison") -> None:
    """Print a row for each mechanism, and why others were left out."""
    result = comparison.of_plan
    title = f"{counted(len(result.runs), 'run')} each; top 20: the share of the true top 20 found"
    headings = ["mechanism", "bytes", "n·MSE", "predicted", "posterior n·MSE", "95 % cover"]
    headings += ["top 20", "stand out"]
    table(headings, map(_row, comparison.compared), title)
    for one in comparison.compared:
        if one.drawbacks:
            say(f"{one.plan.mechanism}: {'; '.join(one.drawbacks)}.")
    for left in comparison.left_out:
        say(f"{left.mechanism} is left out: {left.reason}.")
    say(
        f"{result.reports:,} reports, {result.keys:,} keys. "
        f"An all-zero answer has n·MSE {result.zero_mse * result.reports:.4g}, and finds nothing."
    )
    if result.excess.over:
        say(f"The plan: {result.excess.describe()} {ADVICE}")


def _row(one: "Compared") -> list[str]:
    result = one.result
    return [
        one.title,
        f"{result.bytes:,}",
        _with_spread(result.mean("n_mse"), result.stderr("n_mse")),
        f"{result.mean('predicted_n_var'):.4g}",
        f"{result.mean('n_mse', 'posterior'):.4g}" if result.has_posterior else "",
        f"{result.mean('coverage95'):.1%}",
        f"{result.mean('top20_recall'):.0%}",
        f"{result.mean('significant'):.1f}",
    ]


def _with_spread(mean: float, stderr: float, digits: int = 4) -> str:
    """Return a mean and its standard error, which a single run does not have."""
    if math.isnan(stderr):
        return f"{mean:.{digits}g}"
    return f"{mean:.{digits}g} ± " + (f"{stderr:,.0f}" if stderr >= 100 else f"{stderr:.2g}")
