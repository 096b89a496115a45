"""faintly push: a file of reports to a collector."""

from pathlib import Path
from typing import Annotated

from faintly.cli.options import argument, whole
from faintly.cli.output import Json, emit, progress, say
from faintly.cli.remote import CaFile, CredentialFile, Server, connect


def push(
    reports: Annotated[Path, argument("A file of reports, as encode writes it.")],
    server: Server,
    epoch: Annotated[int, whole("The epoch that the reports count for.", least=0)] = 0,
    batch: Annotated[
        int | None, whole("Reports in a request at most.", least=1, show_default="10000")
    ] = None,
    credential_file: CredentialFile = None,
    ca_file: CaFile = None,
    retries: Annotated[int, whole("Attempts after the first, per batch.", least=0)] = 8,
    as_json: Json = False,
) -> None:
    """Send every report of a file to a collector, once.

    What was chosen and what was acknowledged is kept beside the file, in REPORTS.push. After a
    failure or a crash the same command goes on where it stopped, and nothing is counted twice.
    """
    from faintly.client.push import push as send_all

    with connect(server, credential_file, ca_file, retries) as connection, progress() as bar:
        task = bar.add_task("pushing", total=None)
        done = send_all(
            reports,
            server,
            connection,
            epoch=epoch,
            batch=batch,
            progress=lambda now, all_: bar.update(task, completed=now, total=all_),
        )
    parcel = done.parcel
    if as_json:
        emit(
            {
                "digest": parcel.plan,
                "epoch": parcel.epoch,
                "reports": parcel.reports,
                "sent": done.sent,
                "replayed": done.replayed,
                "skipped": done.skipped,
            }
        )
    elif done.skipped == parcel.reports:
        say(f"all {parcel.reports:,} reports had arrived before; nothing was sent")
    else:
        say(f"{parcel.reports:,} reports are with the collector ({done.sent:,} counted now)")
