"""faintly aggregate and faintly merge: reports to a sketch, and several sketches to one."""

import time
from pathlib import Path
from typing import Annotated

from faintly.cli.options import argument, whole
from faintly.cli.output import Json, Output, PlanFile, counted, note, progress, result


def aggregate(
    reports: Annotated[list[Path], argument("Files of reports.")],
    plan: PlanFile,
    output: Output,
    as_json: Json = False,
) -> None:
    """Count the reports of all files into one sketch.

    A file that breaks a rule is refused with the reason, and then no sketch is written.
    """
    from faintly.engine import Aggregator
    from faintly.engine.files import load_plan, read_reports, save_sketch

    loaded = load_plan(plan)
    # Reports of direct mode may not fit into memory; the sketch will be in that folder as well.
    aggregator = Aggregator(loaded, spool=output.resolve().parent)
    started = time.monotonic()
    with progress() as bar:
        task = bar.add_task("aggregating", total=len(reports))
        for path in reports:
            for batch in read_reports(loaded, path):
                aggregator.add(batch)
                rate = aggregator.count / max(1e-9, time.monotonic() - started)
                text = f"aggregating: {aggregator.count:,} reports, {rate:,.0f}/s, files"
                bar.update(task, description=text)
            bar.advance(task)
    sketch = aggregator.sketch()
    save_sketch(sketch, output)
    if sketch.count > loaded.clients:
        note(f"{sketch.count:,} reports, where the plan expects {loaded.clients:,}")
    result(
        as_json,
        {"reports": sketch.count, "files": len(reports), "digest": loaded.digest.hex()},
        f"{sketch.count:,} reports of {counted(len(reports), 'file')} are in {output}",
    )


def merge(
    sketches: Annotated[list[Path], argument("Sketches of the same plan.")],
    output: Output,
    threads: Annotated[
        int | None, whole("Threads to use; by default one per processor.", least=1)
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
