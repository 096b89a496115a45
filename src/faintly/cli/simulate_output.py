"""What faintly simulate prints: one plan in detail, or several mechanisms in one table."""

import math
from dataclasses import astuple

from faintly.cli.output import ADVICE, counted, say, table
from faintly.simulate import SCORES, Compared, Comparison, Simulation


def describe(result: Simulation) -> None:
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
        "false_significant": "of these nobody's",
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


def _cell(result: Simulation, name: str, against: str) -> str:
    if name not in SCORES and against != "truth":
        return ""  # of the run as a whole
    return _with_spread(result.mean(name, against), result.stderr(name, against), 3)


def describe_all(comparison: Comparison) -> None:
    """Print a row for each mechanism, and why others were left out."""
    result = comparison.of_plan
    title = f"{counted(len(result.runs), 'run')} each; top 20: the share of the true top 20 found"
    headings = ["mechanism", "bytes", "n·MSE", "predicted", "posterior n·MSE", "95 % cover"]
    headings += ["top 20", "stand out"]
    table(headings, map(_row, comparison.compared), title)
    for one in comparison.compared:
        if one.entrant.drawbacks:
            say(f"{one.entrant.plan.mechanism}: {'; '.join(one.entrant.drawbacks)}.")
    for left in comparison.left_out:
        say(f"{left.mechanism} is left out: {left.reason}.")
    say(
        f"{result.reports:,} reports, {result.keys:,} keys. "
        f"An all-zero answer has n·MSE {result.zero_mse * result.reports:.4g}, and finds nothing."
    )
    if result.excess.over:
        say(f"The plan: {result.excess.describe()} {ADVICE}")


def _row(one: Compared) -> list[str]:
    result = one.result
    return [
        one.entrant.title,
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
