"""The options of faintly plan, in the order of the help."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli import options
from faintly.cli.options import option, real, whole, word
from faintly.errors import InvalidPlan


def mechanisms() -> list[str]:
    """Return every mechanism, baselines included."""
    from faintly.mechanisms import mechanism_names

    return mechanism_names()


def _unit(text: str) -> str:
    """Return the text, if it names a unit."""
    if text in ("event", "user"):  # at once: the parser needs numpy
        return text
    from faintly.core import parse_unit

    try:
        parse_unit(text)
    except InvalidPlan as error:
        raise typer.BadParameter(str(error)) from None
    return text


Protect = Annotated[
    str,
    option(
        "What is hidden: event, user or l1:DISTANCE.",
        autocompletion=lambda: ["event", "user", "l1:"],
        callback=_unit,
    ),
]
UniverseText = Annotated[
    str, option("SIZE for keys 0..SIZE-1, open for any text, or a file of names.")
]
Epsilon = Annotated[float | None, real("Privacy budget of one report [or solved for].")]
Sparsity = Annotated[
    int | None, whole("Items a client usually holds at most [or solved for, or from --sample].")
]
Sample = Annotated[
    Path | None, option("A pilot, as encode reads it: compare sparsities on it, and take the best.")
]
Values = Annotated[
    options.Values, word("What people hold: values in [-1, 1], in [0, 1], or sets.", options.Values)
]
Share = Annotated[
    float | None,
    real(
        "Largest share of the clients that hold a key of interest [default: 0.05; 1, which "
        "is the worst case, for signed values]."
    ),
]
Clients = Annotated[int | None, whole("Expected number of clients [or solved for].")]
TargetError = Annotated[
    float | None,
    real(
        "Worst-case standard error wanted; then one of --epsilon, --clients and --sparsity "
        "may be left out."
    ),
]
MaxBytes = Annotated[int | None, whole("Largest report, in bytes.")]
Memory = Annotated[int, whole("MiB that the server's tables may take.", least=1, most=2**14)]
HardSparsity = Annotated[
    bool,
    option(
        "No vector holds more than --sparsity items; admits mechanisms that refuse one.",
        "--hard-sparsity",
    ),
]
PlanOutput = Annotated[Path | None, option("Write the plan to this file.", "--output", "-o")]
Delta = Annotated[float, real("Above 0 only where a theorem needs it.")]
Mechanism = Annotated[
    str | None,
    option(
        "Only this one [default: the best of all].", metavar="NAME", **options.one_of(mechanisms)
    ),
]
Decode = Annotated[
    options.Decode | None,
    word(
        "table: all keys at once; direct: any key, O(reports) each [default: the best].",
        options.Decode,
    ),
]
Family = Annotated[options.Family | None, word("Hash family [default: by decode].", options.Family)]
Options = Annotated[
    list[str] | None,
    option("Option of the named mechanism; repeatable.", "--option", metavar="NAME=VALUE"),
]
Bins = Annotated[
    str | None,
    option(
        "signed-binning: paper, best, or a number [default: paper].",
        autocompletion=lambda: ["paper", "best"],
    ),
]
Row = Annotated[
    options.Row | None,
    word("signed-binning: the theorem to follow [default: the best].", options.Row),
]
Steps = Annotated[int | None, whole("signed-binning: grid steps per unit, a power of two.")]
Cap = Annotated[
    str | None,
    option(
        "signed-binning, user: largest clip, or none [default: sparsity].",
        autocompletion=lambda: ["none"],
    ),
]
Failure = Annotated[float, real("Chance that clipping or truncation touches any report.")]
Maps = Annotated[int | None, whole("Public maps of the linear family.")]
Bits = Annotated[int | None, whole("Code bits of the linear family.")]
Rank = Annotated[options.Rank, word("The error to rank by.", options.Rank)]
MeanSquare = Annotated[
    float | None, real("Sum of squares of a typical vector [default: sparsity / 4].")
]
ExpectedMean = Annotated[float | None, real("How large the interesting means are, to be warned.")]
Everything = Annotated[
    bool, option("Show the whole ranking, and what was refused.", "--candidates")
]
Verbose = Annotated[
    bool, option("Show every number of the plan, and why this one.", "--verbose", "-v")
]
Explain = Annotated[bool, option("Explain the plan in words, for people who decide.", "--explain")]
Plot = Annotated[Path | None, option("Draw error against bytes and epsilon (.png, .svg).")]
Shuffle = Annotated[bool, option("Add what a trusted shuffler would give.", "--shuffle")]
ShuffleDelta = Annotated[float, real("Delta of that bound.")]
