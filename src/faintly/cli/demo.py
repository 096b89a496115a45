"""faintly demo: the whole flow on the sample that ships with faintly."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli.options import option, real
from faintly.cli.output import Json, bars, emit, say, shown, table

if TYPE_CHECKING:
    from faintly.demo import DemoResult


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
    return document | {
        "top20_recall": result.recall,
        "coverage95": result.covered,
        "coverage95_posterior": result.covered_posterior,
        "error": result.error,
        "error_posterior": result.error_posterior,
        "error_zero": result.error_zero,
        "keys": result.keys,
        "bytes": result.record_bytes,
        "mechanism": result.plan.mechanism,
        "signed_error_ratio": result.signed.times,
        "epsilon": result.plan.budget.epsilon,
        "chart": str(out / "top.png"),
    }


def _show(result: "DemoResult", out: Path) -> None:
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
    say(
        f"{found.reports:,} reports of {result.record_bytes} bytes; {result.keys:,} names asked. "
        f"{result.recall:.0%} of the true top 20 are in the list, and {result.covered:.1%} of all "
        f"95 % intervals hold the truth. Noise floor of one name that nobody uses: "
        f"±{found.noise_floor:.4f}."
    )
    say(
        f"Typical error over all names: unbiased {result.error:.5f}, posterior "
        f"{result.error_posterior:.5f} (fitted to {made.population}), and {result.error_zero:.5f} "
        f"for the answer 0 to everything. {result.covered_posterior:.1%} of posterior intervals "
        f"hold the truth."
    )
    signed = result.signed
    say(
        f"People hold sets here, and the plan says so: values of either sign would need "
        f"{signed.mechanism}, whose standard error is {signed.times:.1f} times as large, in "
        f"{signed.record_bytes} bytes."
    )
    say(found.guarantee.describe())
    say(f"\nWritten to {out}/: plan.json, reports.fnt, sketch.fns, top.png. Go on with:")
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
