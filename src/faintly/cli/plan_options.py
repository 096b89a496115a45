"""The options of faintly plan, in the order of the help."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli import choices
from faintly.cli.numbers import real, whole


def mechanisms() -> list[str]:
    """Return every mechanism, baselines included."""
    from faintly.mechanisms import mechanism_names

    return mechanism_names()


def _unit(text: str) -> str:
    """Return the text, if it names a unit."""
    if text in ("event", "user"):  # at once: the parser needs numpy
        return text
    from faintly.core import parse_unit
    from faintly.errors import InvalidPlan

    try:
        parse_unit(text)
    except InvalidPlan as error:
        raise typer.BadParameter(str(error)) from None
    return text


Protect = Annotated[
    str,
    typer.Option(
        help="What is hidden: event, user or l1:DISTANCE.",
        autocompletion=lambda: ["event", "user", "l1:"],
        callback=_unit,
    ),
]
UniverseText = Annotated[
    str, typer.Option(help="SIZE for keys 0..SIZE-1, open for any text, or a file of names.")
]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Privacy budget of one report [or solved for].", parser=real()),
]
Sparsity = Annotated[
    int | None,
    typer.Option(
        help="Items a client usually holds at most [or solved for, or from --sample].",
        parser=whole(),
    ),
]
Sample = Annotated[
    Path | None,
    typer.Option(help="A pilot, as encode reads it: compare sparsities on it, and take the best."),
]
Values = Annotated[
    choices.Values,
    typer.Option(
        help="What people hold: values in [-1, 1], in [0, 1], or sets.",
        **choices.words(choices.Values),
    ),
]
Share = Annotated[
    float | None,
    typer.Option(
        help="Largest share of the clients that hold a key of interest [default: 0.05; 1, which "
        "is the worst case, for signed values].",
        parser=real(),
    ),
]
Clients = Annotated[
    int | None, typer.Option(help="Expected number of clients [or solved for].", parser=whole())
]
TargetError = Annotated[
    float | None,
    typer.Option(
        help="Worst-case standard error wanted; then one of --epsilon, --clients and "
        "--sparsity may be left out.",
        parser=real(),
    ),
]
MaxBytes = Annotated[int | None, typer.Option(help="Largest report, in bytes.", parser=whole())]
Memory = Annotated[
    int,
    typer.Option(help="MiB that the server's tables may take.", parser=whole(1, 2**14)),
]
HardSparsity = Annotated[
    bool,
    typer.Option(
        "--hard-sparsity",
        help="No vector holds more than --sparsity items; admits mechanisms that refuse one.",
    ),
]
PlanOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the plan to this file.")
]
Delta = Annotated[float, typer.Option(help="Above 0 only where a theorem needs it.", parser=real())]
Mechanism = Annotated[
    str | None,
    typer.Option(
        help="Only this one [default: the best of all].",
        metavar="NAME",
        **choices.one_of(mechanisms),
    ),
]
Decode = Annotated[
    choices.Decode | None,
    typer.Option(
        help="table: all keys at once; direct: any key, O(reports) each [default: the best].",
        **choices.words(choices.Decode),
    ),
]
Family = Annotated[
    choices.Family | None,
    typer.Option(help="Hash family [default: by decode].", **choices.words(choices.Family)),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", help="Option of the named mechanism; repeatable.", metavar="NAME=VALUE"
    ),
]
Bins = Annotated[
    str | None,
    typer.Option(
        help="signed-binning: paper, best, or a number [default: paper].",
        autocompletion=lambda: ["paper", "best"],
    ),
]
Row = Annotated[
    choices.Row | None,
    typer.Option(
        help="signed-binning: the theorem to follow [default: the best].",
        **choices.words(choices.Row),
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(help="signed-binning: grid steps per unit, a power of two.", parser=whole()),
]
Cap = Annotated[
    str | None,
    typer.Option(
        help="signed-binning, user: largest clip, or none [default: sparsity].",
        autocompletion=lambda: ["none"],
    ),
]
Failure = Annotated[
    float,
    typer.Option(help="Chance that clipping or truncation touches any report.", parser=real()),
]
Maps = Annotated[int | None, typer.Option(help="Public maps of the linear family.", parser=whole())]
Bits = Annotated[int | None, typer.Option(help="Code bits of the linear family.", parser=whole())]
Rank = Annotated[
    choices.Rank, typer.Option(help="The error to rank by.", **choices.words(choices.Rank))
]
MeanSquare = Annotated[
    float | None,
    typer.Option(help="Sum of squares of a typical vector [default: sparsity / 4].", parser=real()),
]
ExpectedMean = Annotated[
    float | None,
    typer.Option(help="How large the interesting means are, to be warned.", parser=real()),
]
Everything = Annotated[
    bool, typer.Option("--candidates", help="Show the whole ranking, and what was refused.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every number of the plan, and why this one.")
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Explain the plan in words, for people who decide.")
]
Plot = Annotated[
    Path | None, typer.Option(help="Draw error against bytes and epsilon (.png, .svg).")
]
Shuffle = Annotated[bool, typer.Option("--shuffle", help="Add what a trusted shuffler would give.")]
ShuffleDelta = Annotated[float, typer.Option(help="Delta of that bound.", parser=real())]
