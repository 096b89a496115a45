"""faintly fsck: is everything in a collector's folder as it should be."""

from typing import Annotated

import typer

from faintly.cli.options import option
from faintly.cli.output import Json, counted, emit, say
from faintly.cli.remote import Folder, server_extra


def fsck(
    folder: Folder,
    repair: Annotated[
        bool, option("Repair what can be repaired without losing anything.", "--repair")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read every report, checksum and sketch of a folder that no collector uses.

    Sketches are built again from the raw reports and compared, integer for integer. Ends with
    status 1 if anything is wrong; files that a crash left over are not. --repair deletes them,
    and sketches that the raw reports give again.
    """
    from dataclasses import asdict

    with server_extra():
        from faintly.collector.admin.fsck import check

        checked = check(folder, repair=repair)
    if as_json:
        emit({**asdict(checked), "sound": checked.sound})
    else:
        for finding in checked.findings:
            done = "repaired" if finding.repaired else finding.advice
            say(f"{finding.where}: {finding.what} ({done})")
        verdict = "sound" if checked.sound else "DAMAGED"
        if checked.leftovers:
            verdict += f", with {counted(checked.leftovers, 'leftover file')}"
        say(
            f"{counted(checked.collections, 'collection')}, {checked.sealed:,} sealed reports, "
            f"{checked.pending:,} pending: {verdict}"
        )
    if not checked.sound:
        raise typer.Exit(1)
