"""faintly backup and faintly restore: a collector's folder, copied whole."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli.output import Json, emit, say
from faintly.cli.remote import Folder, server_extra

Target = Annotated[
    Path, typer.Argument(help="Folder for the copy: empty, or not there yet.", show_default=False)
]


def backup(folder: Folder, target: Target, as_json: Json = False) -> None:
    """Copy a collector's folder as of one moment, while the collector runs or not.

    The copy is a folder like the original, credentials and request ids included: fsck reads it,
    and serve runs on it.
    """
    with server_extra():
        from faintly.collector.admin.backup import backup as copy

        size = copy(folder, target)
    if as_json:
        emit({"folder": str(target), "bytes": size})
    else:
        say(f"copied {size:,} bytes to {target}")


def restore(
    source: Annotated[Path, typer.Argument(help="A copy that backup made.", show_default=False)],
    folder: Target,
    as_json: Json = False,
) -> None:
    """Copy a backup into an empty folder, after checking all of it.

    Reports that were acknowledged after the backup are not in it, and are not sent again by
    themselves.
    """
    with server_extra():
        from faintly.collector.admin.backup import restore as copy

        size = copy(source, folder)
    if as_json:
        emit({"folder": str(folder), "bytes": size})
    else:
        say(f"restored {size:,} bytes to {folder}")
