"""faintly collection: create, look at, close and delete the collections of a collector."""

from pathlib import Path
from typing import Annotated, Any

import typer

from faintly.cli import options
from faintly.cli.options import argument, group, grouped, option, real, whole, word
from faintly.cli.output import Json, emit, result, say, shown, table
from faintly.cli.remote import ServerOptions

app = group("Create, look at, close and delete the collections of a collector.")
Digest = Annotated[
    str, argument("The collection: its name, or its plan's digest.", metavar="COLLECTION")
]


@app.command()
@grouped
def create(
    plan: Annotated[Path, argument("The plan, as faintly plan writes it.")],
    collector: ServerOptions,
    name: Annotated[str, option("A name, for people and for queries.")] = "",
    retention: Annotated[
        options.Retention,
        word("Keep the raw reports, or drop them once they are counted.", options.Retention),
    ] = "keep",
    tokens: Annotated[bool, option("Each report needs a token.", "--tokens")] = False,
    epoch: Annotated[
        list[int] | None,
        whole("Epoch to open; repeatable.", "--epoch", least=0, metavar="NUMBER", show_default="0"),
    ] = None,
    period_s: Annotated[
        float | None,
        real("Seconds of an epoch; epochs then follow the clock.", show_default=False),
    ] = None,
    grace_s: Annotated[
        float | None,
        real("Seconds that such an epoch takes reports after its end.", show_default="one period"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create the collection of a plan; doing it twice changes nothing.

    Without --epoch, epoch 0 is open; with --period-s, the clock opens epochs.
    """
    from faintly.engine.files import load_plan

    wanted = {
        "plan": load_plan(plan).document(),
        "name": name,
        "retention": retention,
        "tokens": tokens,
        "epochs": epoch or None,  # the server has the default, so that it is the same over HTTP
        "period_s": period_s,
        "grace_s": grace_s,
    }
    with collector.connect() as connection:
        made = connection.ask("POST", "/v1/collections", wanted)
    _show(made, as_json)


@app.command(name="list")
@grouped
def list_(
    collector: ServerOptions,
    as_json: Json = False,
) -> None:
    """List every collection with its state and its reports."""
    with collector.connect() as connection:
        found = connection.ask("GET", "/v1/collections")
    if as_json:
        emit(found)
    elif not found["collections"]:
        say("no collections; faintly collection create makes one from a plan")
    else:
        heads = ["collection", "", "", "reports", "pending"]
        table(heads, [_row(each) for each in found["collections"]])


@app.command()
@grouped
def show(
    digest: Digest,
    collector: ServerOptions,
    as_json: Json = False,
) -> None:
    """Show a collection: what it protects, and the reports of each epoch."""
    with collector.connect() as connection:
        _show(connection.ask("GET", _path(digest)), as_json)


@app.command()
@grouped
def seal(
    digest: Digest,
    collector: ServerOptions,
    as_json: Json = False,
) -> None:
    """Seal pending reports now, so that answers include them."""
    with collector.connect() as connection:
        found = connection.ask("POST", f"{_path(digest)}/seal")
    result(as_json, found, f"sealed {found['sealed']:,} reports")


@app.command(name="open")
@grouped
def open_(
    digest: Digest,
    collector: ServerOptions,
    epoch: Annotated[int, whole("The epoch.", least=0, show_default=False)],
    as_json: Json = False,
) -> None:
    """Open an epoch. A closed epoch cannot be reopened."""
    with collector.connect() as connection:
        made = connection.ask("PUT", f"{_path(digest)}/epochs/{epoch}", {"state": "open"})
    _show(made, as_json)


@app.command()
@grouped
def close(
    digest: Digest,
    collector: ServerOptions,
    epoch: Annotated[
        int | None, whole("Only this epoch.", least=0, show_default="the whole collection")
    ] = None,
    as_json: Json = False,
) -> None:
    """Stop taking reports, permanently; answers stay."""
    with collector.connect() as connection:
        if epoch is None:
            made = connection.ask("POST", f"{_path(digest)}/close")
        else:
            made = connection.ask("PUT", f"{_path(digest)}/epochs/{epoch}", {"state": "closed"})
    _show(made, as_json)


@app.command()
@grouped
def delete(
    digest: Digest,
    collector: ServerOptions,
    yes: Annotated[bool, option("Do not ask for confirmation.", "--yes")] = False,
    as_json: Json = False,
) -> None:
    """Delete a collection with its plan, reports and answers, permanently."""
    path = _path(digest)
    if not yes:
        typer.confirm(f"Delete {digest} and all its reports permanently?", abort=True, err=True)
    with collector.connect() as connection:
        # Delete by the digest: the name could be given to another collection in between.
        named = connection.ask("GET", path)["digest"]
        found = connection.ask("DELETE", f"{_path(named)}?confirm={named}")
    result(as_json, found, f"deleted {digest}")


def _path(digest: str) -> str:
    from faintly.client.transport import named_path

    return named_path(digest)


def _row(found: dict[str, Any]) -> list[str]:
    counts = f"{found['reports']:,}", f"{found['pending']:,}"
    return [found["digest"], shown(found["name"]), found["state"], *counts]


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(found)
        return
    settings = ("name", "state", "retention", "tokens", "period_s", "grace_s")
    for name in ("digest", *settings, "mechanism", "guarantee"):
        if found[name] not in ("", None):
            say(f"{name:<16} {shown(found[name])}")
    rows = [
        [str(each["epoch"]), each["state"], f"{each['reports']:,}", f"{each['pending']:,}"]
        for each in found["epochs"]
    ]
    if rows:
        table(["epoch", "", "reports", "pending"], rows)
