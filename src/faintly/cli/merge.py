"""faintly merge: several sketches to one."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli.output import Json, Output, emit, say


def merge(
    sketches: Annotated[list[Path], typer.Argument(help="Sketches of the same plan.")],
    output: Output,
    as_json: Json = False,
) -> None:
    """Merge sketches made on different machines, or from different files.

    The result is the sketch that all reports together would give, integer for integer.
    Whoever merges makes sure that no report is in two of the sketches.
    """
    from functools import reduce

    from faintly.core import Sketch
    from faintly.engine.files import load_sketch, save_sketch

    merged = reduce(Sketch.merge, (load_sketch(path) for path in sketches))
    save_sketch(merged, output)
    if as_json:
        emit({"reports": merged.count, "files": len(sketches), "plan": merged.plan.digest.hex()})
    else:
        say(f"{merged.count:,} reports of {len(sketches)} sketch(es) merged in {output}")
