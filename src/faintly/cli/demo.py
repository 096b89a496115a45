"""faintly demo: the whole flow on the sample that ships with faintly."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli.options import option, real
from faintly.cli.output import Json, bars, emit, say, shown, table

if TYPE_CHECKING:
    from faintly.demo import DemoResult

WORDS = (
    "{reports:,} reports of {bytes} bytes; {keys:,} names asked. {top20_recall:.0%} of the true "
    "top 20 are in the list, and {coverage95:.1%} of all 95 % intervals hold the truth. Noise "
    "floor of one name that nobody uses: ±{noise_floor:.4f}.\n"
    "Typical error over all names: unbiased {error:.5f}, posterior {error_posterior:.5f} (fitted "
    "to {population}), and {error_zero:.5f} for the answer 0 to everything. "
    "{coverage95_posterior:.1%} of posterior intervals hold the truth.\n"
    "People hold sets here, and the plan says so: values of either sign would need {signed}, "
    "whose standard error is {signed_error_ratio:.1f} times as large, in {signed_bytes} bytes."
)


def demo(
    output: Annotated[
        Path, option("Folder for plan, reports, sketch and chart.", "--output", "-o")
    ] = Path("faintly-demo"),
    epsilon: Annotated[float, real("Privacy budget of one report.")] = 2.0,
    as_json: Json = False,
) -> None:
    """Collect which packages 120,000 npm packages depend on, without seeing any of them.

    Plans, encodes every client, aggregates, asks, and shows the top list beside the truth.
    """
    import time

    from faintly.demo import draw_chart, run_demo

    output.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def step(text: str) -> None:
        if not as_json:
            typer.secho(f"[{time.monotonic() - started:4.1f} s] {text}", fg="cyan", err=True)

    result = run_demo(output, epsilon, step)
    step("drawing the chart")
    draw_chart(result, output / "top.png")
    if as_json:
        emit(_document(result, output))
    else:
        _show(result, output)


def _document(result: "DemoResult", out: Path) -> dict[str, Any]:
    from faintly.engine.documents import estimate_document

    document = estimate_document(result.top.estimates)
    for row, truth, significant in zip(
        document["estimates"], result.truth, result.top.significant, strict=True
    ):
        row |= {"truth": float(truth), "significant": bool(significant)}
    return document | result.measures | {"chart": str(out / "top.png")}


def _show(result: "DemoResult", out: Path) -> None:
    from faintly.mechanisms import mechanism_of

    found, made = result.top.estimates, result.top.estimates.posterior
    assert made is not None
    answers = found.answers()[0]
    rows = zip(found, answers, result.truth, result.top.verdicts, bars(answers), strict=True)
    table(
        ["package", "posterior", "unbiased", "± 95 %", "truth", "significant", ""],
        (
            (
                shown(row.key),
                f"{answer:.4f}",
                f"{row.mean:.4f}",
                f"{row.high - row.mean:.4f}",
                f"{truth:.4f}",
                verdict,
                bar,
            )
            for row, answer, truth, verdict, bar in rows
        ),
    )
    more = {
        "reports": found.reports,
        "noise_floor": found.noise_floor,
        "population": made.population,
        "signed": result.signed.mechanism,
        "signed_bytes": mechanism_of(result.signed).layout.record_bytes,
    }
    say(WORDS.format(**result.measures, **more))
    say(found.guarantee.describe())
    say(f"\nWritten to {out}/: plan.json, reports.fnt, sketch.fns, top.png. Continue with:")
    for command in (
        f"query {out}/sketch.fns lodash react left-pad",
        f"audit --plan {out}/plan.json",
    ):
        say(f"  {_program()} {command}")


def _program() -> str:
    """Return how to call this program again: by name if it is on the path."""
    import os
    import shutil
    import sys

    return "faintly" if shutil.which("faintly") else os.path.relpath(sys.argv[0])
