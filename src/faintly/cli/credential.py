"""faintly credential: who may send to, read from and administer a collector."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faintly.cli import options
from faintly.cli.options import argument, group, word
from faintly.cli.output import Json, emit, note, result, say, shown, table
from faintly.cli.remote import Data, needs_collector
from faintly.errors import InvalidInput

if TYPE_CHECKING:
    from faintly_collector.storage.credentials import Credentials

app = group("Who may send to, read from and administer a collector.")
Label = Annotated[str, argument("A name to remove it by, such as dashboard.")]


@app.command()
def add(
    label: Label,
    data: Data,
    role: Annotated[
        options.Role, word("What it allows; admin includes read.", options.Role, show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Make a credential and print its secret, which is shown once.

    Only a hash is stored. A running collector accepts the credential within about two seconds.
    Without credentials, everybody on this machine may do everything; the first one ends that.
    Once there is a submit credential, senders need one as well.
    """
    with needs_collector():
        from faintly_collector.storage.credentials import check_label

    check_label(label)  # before a folder is made for it
    with _credentials(data, create=True) as credentials:
        secret = credentials.add(role, label)
    if as_json:
        emit({"label": label, "role": role, "secret": secret})
    else:
        say(secret)
        note("this is shown once; keep it in a file that only its user can read")


@app.command(name="list")
def list_(data: Data, as_json: Json = False) -> None:
    """Show label and role of each credential."""
    with _credentials(data) as credentials:
        rows = credentials.labels()
    if as_json:
        emit({"credentials": [{"label": label, "role": role} for label, role in rows]})
    elif rows:
        table(["label", ""], [(shown(label), role) for label, role in rows])
    else:
        say("no credentials: everybody on this machine may do everything")


@app.command()
def remove(label: Label, data: Data, as_json: Json = False) -> None:
    """Revoke a credential, effective within about two seconds."""
    with _credentials(data) as credentials:
        credentials.remove(label)
        left = {role for _, role in credentials.labels()}
    result(as_json, {"removed": label}, f"removed {label}")
    if not left:
        note("no credential is left: everybody on this machine may do everything, others nothing")
    elif "admin" not in left:
        note("no admin credential is left: a collector that others can reach will not start")


@contextmanager
def _credentials(data: Path, create: bool = False) -> Iterator["Credentials"]:
    """Yield the credentials of a folder, which a collector may be using."""
    from faintly.durable import make_folder
    from faintly.wire.problems import Problem

    with needs_collector():
        from faintly_collector.storage.credentials import Credentials
        from faintly_collector.storage.database import Database, check_folder

    if create:
        make_folder(data)
    else:
        check_folder(data)
    try:
        with Database(data) as database:
            yield Credentials(database)
    except Problem as problem:
        raise InvalidInput(problem.message) from None
