"""What commands around a collector share: folder, address, credential, certificate."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faintly.cli.options import argument, option
from faintly.errors import InvalidInput, MissingDependency, SendFailed

if TYPE_CHECKING:
    from ssl import SSLContext

    from faintly.client.transport import Connection

Server = Annotated[
    str, option("The collector's address, such as http://127.0.0.1:8790.", show_default=False)
]
Folder = Annotated[Path, argument("The collector's folder.", file_okay=False, show_default=False)]
Data = Annotated[Path, option("The collector's folder.", file_okay=False, show_default=False)]
CredentialFile = Annotated[
    Path | None, option("File that holds a credential; a command line would show it to others.")
]
CaFile = Annotated[
    Path | None, option("Certificates to trust for https, instead of the system's (PEM).")
]


# A digest also names a collection; older scripts pass it by the second option.
CollectionOption = Annotated[
    str,
    option(
        "The collection: its name, or its plan's digest.",
        "--collection",
        "--digest",
        show_default=False,
    ),
]


@contextmanager
def needs_collector() -> Iterator[None]:
    """Say what to install if the collector, or a package that it needs, is missing."""
    try:
        yield
    except ImportError as error:
        raise MissingDependency(
            f"this command needs {error.name}; install the package faintly-collector "
            "(in a clone: pip install . ./collector)"
        ) from None


def read_secret(path: Path | None) -> str | None:
    """Return the one line of a secret's file."""
    from faintly.engine.files import read_bytes

    if path is None:
        return None
    text = read_bytes(path).decode("utf-8", "replace").strip()
    if not text or len(text.split()) != 1:
        raise InvalidInput(f"{path} must hold one secret and nothing else")
    return text


def trust(ca_file: Path | None) -> "SSLContext | None":
    """Return the context that trusts the certificates in a file; None for the system's."""
    import ssl

    if ca_file is None:
        return None
    if not ca_file.is_file():
        raise InvalidInput(f"there is no file {ca_file} with certificates")
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError:  # a wrong certificate raises one, too
        raise InvalidInput(f"{ca_file} does not hold certificates in PEM form") from None


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of every command that talks to a collector."""

    server: Server
    credential_file: CredentialFile = None
    ca_file: CaFile = None

    def connect(self, retries: int = 0) -> AbstractContextManager["Connection"]:
        """Return a connection, for use in a with statement."""
        return connect(self.server, self.credential_file, self.ca_file, retries)


@contextmanager
def connect(
    server: str, credential_file: Path | None, ca_file: Path | None, retries: int = 0
) -> Iterator["Connection"]:
    """Yield a connection; a refusal is printed with advice."""
    from faintly.client.transport import Connection

    secret, tls = read_secret(credential_file), trust(ca_file)
    try:
        with Connection(server, credential=secret, retries=retries, tls=tls) as made:
            yield made
    except SendFailed as error:
        # A collector never repeats a secret, but another server at this address might.
        shown = error.reason and not (secret and secret in error.reason)
        words = f"{error}: {error.reason}" if shown else str(error)
        hint = _hint(error.code)
        raise SendFailed(error.code, f"{words}. {hint}" if hint else words) from None


def _hint(code: str) -> str:
    """Return this program's own advice about a collector's code."""
    from faintly.wire import problems

    if code in {problems.NOT_AUTHORISED.code, problems.NOT_ALLOWED.code}:
        return "Name a file that holds such a credential with --credential-file."
    kinds = (kind for kind in vars(problems).values() if isinstance(kind, problems.Kind))
    return next((kind.hint for kind in kinds if kind.code == code), "")
