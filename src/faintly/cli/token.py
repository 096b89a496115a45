"""faintly token: single-use rights to send one report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faintly.cli.options import option, whole
from faintly.cli.output import Json, counted, emit, say
from faintly.cli.remote import CaFile, CollectionOption, CredentialFile, Server, connect

if TYPE_CHECKING:
    from faintly.client.transport import Connection

MOST = 10_000  # what a collector issues at a time


def token(
    server: Server,
    digest: CollectionOption,
    count: Annotated[int, whole("How many.", least=1)] = 1,
    epoch: Annotated[int, whole("The epoch that they are for.", least=0)] = 0,
    output: Annotated[
        Path | None, option("File to write, readable by you alone.", "--output", "-o")
    ] = None,
    credential_file: CredentialFile = None,
    ca_file: CaFile = None,
    as_json: Json = False,
) -> None:
    """Issue tokens for a collection that asks for them, one a line, shown once.

    Each is good for one report of one epoch. Hand one to each person, and do not write down who
    got which.
    """
    from faintly.engine.files import atomic_write

    with connect(server, credential_file, ca_file, 0) as connection:
        if output is None:
            made = _issue(connection, digest, epoch, count)
        else:
            # The file comes first: nobody could use tokens that cannot be written down.
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

    path = f"{named_path(digest)}/tokens"
    made: list[str] = []
    while len(made) < count:
        body = {"epoch": epoch, "count": min(MOST, count - len(made))}
        made += connection.ask("POST", path, body)["tokens"]
    return made
