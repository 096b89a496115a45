"""Commands on a collector's folder: export, fsck, backup and restore."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from faintly.cli.options import argument, option, whole
from faintly.cli.output import Json, Output, counted, emit, result, say
from faintly.cli.remote import CollectionOption, Folder, needs_collector

Target = Annotated[
    Path, argument("Folder for the copy; empty, or not yet existing.", show_default=False)
]


def export(
    folder: Folder,
    digest: CollectionOption,
    output: Output,
    epoch: Annotated[int | None, whole("One epoch.", least=0, show_default="all epochs")] = None,
    as_json: Json = False,
) -> None:
    """Write the sealed reports of a collection, in shuffled order; a collector may be running.

    A name that ends with .parquet gives Parquet with the columns epoch and record; any other
    gives a file of reports, which aggregate reads. Collections that drop their reports have none.
    """
    with needs_collector():
        from faintly_collector.admin.export import export as write

        count = write(folder, digest, epoch, output)
    result(as_json, {"reports": count, "file": str(output)}, f"{count:,} reports in {output}")


def fsck(
    folder: Folder,
    repair: Annotated[
        bool, option("Repair what can be repaired without losing anything.", "--repair")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read every report, checksum and sketch of a folder that no collector uses.

    Rebuilds every sketch from the raw reports and compares it, integer for integer. Ends with
    status 1 if anything is wrong; files that a crash left behind do not count. --repair deletes
    such files, and sketches that can be rebuilt from the raw reports.
    """
    with needs_collector():
        from faintly_collector.admin.fsck import check

        checked = check(folder, repair=repair)
    if as_json:
        emit({**asdict(checked), "sound": checked.sound})
    else:
        for finding in checked.findings:
            done = "repaired" if finding.repaired else finding.advice
            say(f"{finding.where}: {finding.what} ({done})")
        verdict = "sound" if checked.sound else "DAMAGED"
        leftovers = sum(finding.leftover for finding in checked.findings)
        if leftovers:
            verdict += f", with {counted(leftovers, 'leftover file')}"
        say(
            f"{counted(checked.collections, 'collection')}, {checked.sealed:,} sealed reports, "
            f"{checked.pending:,} pending: {verdict}"
        )
    if not checked.sound:
        raise typer.Exit(1)


def backup(folder: Folder, target: Target, as_json: Json = False) -> None:
    """Copy a collector's folder as of one moment; the collector may be running.

    The copy is a folder like the original, credentials and request ids included: fsck reads it,
    and serve runs on it.
    """
    with needs_collector():
        from faintly_collector.admin.backup import backup as copy

        size = copy(folder, target)
    result(as_json, {"folder": str(target), "bytes": size}, f"copied {size:,} bytes to {target}")


def restore(
    source: Annotated[Path, argument("A copy that backup made.", show_default=False)],
    folder: Target,
    as_json: Json = False,
) -> None:
    """Copy a backup into an empty folder, after checking all of it.

    The backup lacks reports that were acknowledged after it, and their senders do not send them
    again.
    """
    with needs_collector():
        from faintly_collector.admin.backup import restore as copy

        size = copy(source, folder)
    result(as_json, {"folder": str(folder), "bytes": size}, f"restored {size:,} bytes to {folder}")
