"""faintly backup and faintly restore: a collector's folder, copied whole."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli.output import Json, result
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
    result(as_json, {"folder": str(target), "bytes": size}, f"copied {size:,} bytes to {target}")


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
    result(as_json, {"folder": str(folder), "bytes": size}, f"restored {size:,} bytes to {folder}")
