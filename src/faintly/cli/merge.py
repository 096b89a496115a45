"""faintly merge: several sketches to one."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli.options import whole
from faintly.cli.output import Json, Output, counted, result


def merge(
    sketches: Annotated[list[Path], typer.Argument(help="Sketches of the same plan.")],
    output: Output,
    threads: Annotated[
        int | None, whole("Threads to use; all processors unless given.", least=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Merge sketches made on different machines, or from different files.

    The result is the sketch that all reports together would give, integer for integer.
    Make sure that no report is in two of the sketches.
    """
    from faintly.engine import merge_all
    from faintly.engine.files import save_sketch

    merged = merge_all(sketches, threads, spool=output.resolve().parent)
    save_sketch(merged, output)
    files = counted(len(sketches), "sketch", "sketches")
    result(
        as_json,
        {"reports": merged.count, "files": len(sketches), "digest": merged.plan.digest.hex()},
        f"{merged.count:,} reports of {files} are in {output}",
    )
