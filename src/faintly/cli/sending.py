"""faintly token and faintly push: issue single-use rights to send a report, and send a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faintly.cli.options import argument, grouped, option, whole
from faintly.cli.output import Json, counted, emit, progress, say
from faintly.cli.remote import CollectionOption, ServerOptions

if TYPE_CHECKING:
    from faintly.client.transport import Connection


@grouped
def token(
    collector: ServerOptions,
    digest: CollectionOption,
    count: Annotated[int, whole("How many.", least=1)] = 1,
    epoch: Annotated[int, whole("The epoch that they are for.", least=0)] = 0,
    output: Annotated[
        Path | None, option("File to write, readable by you alone.", "--output", "-o")
    ] = None,
    as_json: Json = False,
) -> None:
    """Issue tokens for a collection that requires them, one per line; they are shown once.

    Each is good for one report of one epoch. Hand one to each person, and do not write down who
    got which.
    """
    from faintly.engine.files import atomic_write

    with collector.connect() as connection:
        if output is None:
            made = _issue(connection, digest, epoch, count)
        else:
            # The file comes first: tokens that cannot be written would be lost.
            with atomic_write(output, private=True) as stream:
                made = _issue(connection, digest, epoch, count)
                stream.write("".join(f"{each}\n" for each in made).encode("ascii"))
    if as_json:
        emit({"epoch": epoch, "count": count} | ({} if output else {"tokens": made}))
    elif output is not None:
        say(f"{counted(count, 'token')} in {output}")
    else:
        say("\n".join(made))


def _issue(connection: "Connection", digest: str, epoch: int, count: int) -> list[str]:
    from faintly.client.transport import named_path
    from faintly.wire.http import TOKENS

    path = f"{named_path(digest)}/tokens"
    made: list[str] = []
    while len(made) < count:
        body = {"epoch": epoch, "count": min(TOKENS, count - len(made))}
        made += connection.ask("POST", path, body)["tokens"]
    return made


@grouped
def push(
    reports: Annotated[Path, argument("A file of reports, as encode writes it.")],
    collector: ServerOptions,
    epoch: Annotated[int, whole("The epoch that the reports count for.", least=0)] = 0,
    batch: Annotated[
        int | None, whole("Most reports in one request.", least=1, show_default="10000")
    ] = None,
    retries: Annotated[int, whole("Attempts after the first, per batch.", least=0)] = 8,
    as_json: Json = False,
) -> None:
    """Send every report of a file to a collector, once.

    REPORTS.push, beside the file, keeps the request ids and what was acknowledged. After a failure
    or a crash, the same command continues where it stopped, and nothing is counted twice.
    """
    from faintly.client.push import push as send_all

    with collector.connect(retries) as connection, progress() as bar:
        task = bar.add_task("pushing", total=None)
        done = send_all(
            reports,
            collector.server,
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
        say(f"the collector has {parcel.reports:,} reports ({done.sent:,} counted now)")
