"""faintly load: how much load a collector on this machine takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from faintly.cli.options import option, real, whole
from faintly.cli.output import Json, emit, note, read_text, say, table
from faintly.cli.remote import CaFile, CredentialFile, Server, connect, read_secret, trust
from faintly.errors import InvalidInput

if TYPE_CHECKING:
    from faintly.client.transport import Connection
    from faintly.core import Plan

BATCH_POOL = 4  # distinct large bodies; each request has its own id anyway
SINGLE_POOL = 4096


def load(
    server: Server,
    plan: Annotated[
        Path | None,
        option("Make a collection like this plan's, with a fresh salt.", "--plan", metavar="FILE"),
    ] = None,
    digest: Annotated[
        str | None,
        option(
            "Load this collection, by name or digest; it then holds made-up reports.",
            "--collection",
            "--digest",
        ),
    ] = None,
    singles: Annotated[bool, option("One report per request.", "--singles")] = False,
    batch: Annotated[int, whole("Reports per request.", least=1)] = 10_000,
    rate: Annotated[
        float | None, real("Requests per second; without it, as many as possible.", least=0.001)
    ] = None,
    seconds: Annotated[float, real("How long to send.", least=0.1)] = 10.0,
    connections: Annotated[int, whole("Connections to keep open.", least=1, most=4096)] = 64,
    epoch: Annotated[int, whole("The epoch that is loaded.", least=0)] = 0,
    token_file: Annotated[
        Path | None, option("Single-use tokens, one per line; needs --singles.")
    ] = None,
    credential_file: CredentialFile = None,
    admin_credential_file: Annotated[
        Path | None, option("File with an admin credential, to make and delete a collection.")
    ] = None,
    ca_file: CaFile = None,
    as_json: Json = False,
) -> None:
    """Load a collector with made-up, valid reports, and show how many it can take.

    Makes its own collection and deletes it afterwards. With --collection it loads an existing one:
    the reports are counted like real ones and cannot be distinguished from them afterwards, so
    never name a collection that holds people's reports.
    """
    from faintly.load import Load, empty_reports, run

    tokens = None if token_file is None else read_text(token_file).split()
    if tokens is not None and not singles:
        raise InvalidInput("a token is good for one report; add --singles")
    reports, pool = (1, SINGLE_POOL) if singles else (batch, BATCH_POOL)
    with (
        connect(server, admin_credential_file, ca_file) as connection,
        _collection(connection, plan, digest, epoch) as loaded,
    ):
        load_ = Load(
            server=server,
            digest=loaded.digest.hex(),
            bodies=empty_reports(loaded, pool, reports),
            reports=reports,
            epoch=epoch,
            connections=connections,
            seconds=seconds,
            rate=rate,
            credential=read_secret(credential_file),
            tokens=tokens,
            tls=trust(ca_file),
        )
        measured = run(load_).document()
    if as_json:
        emit({"connections": connections, "reports_per_request": reports, **measured})
    else:
        _show(measured)


@contextmanager
def _collection(
    connection: "Connection", plan: Path | None, digest: str | None, epoch: int
) -> Iterator["Plan"]:
    """Yield the plan of the collection to load: the named one, or one made for this run."""
    from faintly.client.policy import Policy
    from faintly.client.transport import named_path
    from faintly.engine.files import load_plan
    from faintly.mechanisms import mechanism_names
    from faintly.planner import make_plan
    from faintly.primitives.entropy import fresh_salt
    from faintly.wire.http import DIGEST

    if digest is not None:
        if plan is not None:
            raise InvalidInput("give --plan or --collection, not both")
        if not DIGEST.fullmatch(digest):  # with the digest no read access is needed
            digest = str(connection.ask("GET", named_path(digest))["digest"])
        note("these reports are counted like real ones and stay in the collection")
        baselines = sorted(set(mechanism_names()) - set(mechanism_names(baselines=False)))
        # Nobody's data is sent, and never more items than the plan's sparsity.
        policy = Policy.pinned(digest, bounded_items=True, baselines=baselines)
        yield connection.plan(digest, policy)
        return
    if plan is None:
        made = make_plan(
            protect="event", epsilon=1.0, sparsity=8, clients=1_000_000, universe=10_000
        )
    else:
        # A fresh salt, so that no collection of people has the same digest.
        made = replace(load_plan(plan), salt=fresh_salt())
    body: dict[str, Any] = {"plan": made.document(), "name": "faintly load", "epochs": [epoch]}
    connection.ask("POST", "/v1/collections", body)
    name = made.digest.hex()
    try:
        yield made
    finally:
        connection.close()  # the server may have closed it while the load ran
        connection.call("DELETE", f"/v1/collections/{name}?confirm={name}")


def _show(measured: dict[str, Any]) -> None:
    say(
        f"{measured['requests']:,} requests with {measured['reports']:,} reports were answered "
        f"in {measured['seconds']:.1f} s"
    )
    rows = [
        ["requests a second", f"{measured['requests_per_s']:,.0f}"],
        ["reports a second", f"{measured['reports_per_s']:,.0f}"],
        ["median latency, ms", f"{measured['p50_ms']:.1f}"],
        ["99 % below, ms", f"{measured['p99_ms']:.1f}"],
        ["longest, ms", f"{measured['max_ms']:.1f}"],
    ]
    rows += [[f"refused: {code}", f"{count:,}"] for code, count in measured["errors"].items()]
    table(["", "measured"], rows)
