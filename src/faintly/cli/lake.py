"""faintly lake: sealed segments of collectors in one Delta table."""

from typing import Annotated

from faintly.cli.options import group, option, whole
from faintly.cli.output import Json, PlanFile, emit, result, say
from faintly.cli.remote import Folder, needs_collector

app = group("Commit sealed reports to a Delta table, and list what it holds.")
Table = Annotated[
    str,
    option(
        "The Delta table: a folder, or an address such as s3://bucket/reports. Access to a "
        "store comes from the environment, such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL.",
        show_default=False,
    ),
]


@app.command(short_help="Commit the sealed reports of a collector, each once.")
def commit(folder: Folder, table: Table, as_json: Json = False) -> None:
    """Commit every sealed segment of a collector's folder that the table lacks, in one transaction.

    The collector may be running. Repeat this as often as you like, say every minute: each segment
    is committed once, even after a crash and while other collectors commit to the same table.
    """
    with needs_collector():
        from faintly_collector.admin.lake import commit
    from faintly.lake import Lake

    done = commit(folder, Lake(table))
    result(
        as_json,
        {"version": done.version, "added": done.added, "removed": done.removed}
        | {"reports": done.reports},
        f"version {done.version} of {table}: {done.added} segments added, {done.removed} "
        f"replaced, {done.reports:,} reports in those added",
    )


@app.command(short_help="List the files of a plan in one committed state.")
def files(
    table: Table,
    plan: PlanFile,
    epoch: Annotated[int | None, whole("One epoch.", least=0, show_default="all epochs")] = None,
    version: Annotated[
        int | None, whole("A state of the table.", least=0, show_default="the newest")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the files that hold the reports of a plan, for Spark or any other reader of Parquet."""
    from faintly.engine.files import load_plan
    from faintly.lake import Lake

    found = Lake(table).snapshot(load_plan(plan).digest.hex(), epoch, version)
    if as_json:
        emit({"version": found.version, "reports": found.reports, "files": found.files})
        return
    for name in found.files:
        say(name)
    say(f"version {found.version}: {found.reports:,} reports in {len(found.files)} files")
