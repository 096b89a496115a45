"""The command line: one file per command or group of commands, which parses, calls and prints.

Heavy imports stay inside the commands, so that help and completion answer at once.
"""

import os
import sys
from typing import Annotated, NoReturn

import typer

from faintly.cli import (
    admin,
    answers,
    audit,
    collection,
    credential,
    demo,
    encode,
    inspect,
    lake,
    load,
    plan,
    sending,
    serve,
    simulate,
    sketches,
    spark,
    try_,
)
from faintly.cli.options import option
from faintly.cli.output import emit
from faintly.errors import FaintlyError, InvalidInput

app = typer.Typer(
    name="faintly",
    help="Private collection of sparse vectors: plan it, encode, aggregate, ask.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain help: rich would parse [words in brackets] as markup and drop them.
    rich_markup_mode=None,
)


def _version(shown: bool) -> None:
    if shown:
        inspect.version()
        raise typer.Exit


@app.callback()
def _options(
    _asked: Annotated[
        bool, option("Show the version.", "--version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take options without a command."""


# The list of commands has room for one short line each.
app.command("try", short_help="Show what a collection would find in your file.")(try_.try_)
app.command(short_help="Choose every public parameter of a collection.")(plan.plan)
app.command(short_help="Turn each client of a file into one randomized report.")(encode.encode)
app.command()(sketches.aggregate)
app.command(short_help="Merge sketches made on different machines.")(sketches.merge)
app.command(short_help="Estimate the mean of each key, with error bars.")(answers.query)
app.command(short_help="List the keys with the largest means.")(answers.top)
app.command()(inspect.inspect)
app.command(short_help="Encode data, decode it, and compare with the truth.")(simulate.simulate)
app.command(short_help="Check a plan's promise, exactly and by samples.")(audit.audit)
app.command(short_help="Show what a client's ledger has spent.")(inspect.ledger)
app.command(short_help="Run the whole flow on real data.")(demo.demo)
app.command(short_help="Collect reports over HTTP, and answer.")(serve.serve)
app.add_typer(collection.app, name="collection", short_help="Create, close and delete collections.")
app.command()(sending.push)
app.add_typer(credential.app, name="credential")
app.command(short_help="Issue single-use tokens for a collection.")(sending.token)
app.command(short_help="Write the sealed reports of a collection.")(admin.export)
app.command(short_help="Check every report, checksum and sketch of a folder.")(admin.fsck)
app.command(short_help="Copy a collector's folder while it runs.")(admin.backup)
app.command()(admin.restore)
app.add_typer(lake.app, name="lake", short_help="Commit sealed reports to a Delta table.")
app.add_typer(spark.app, name="spark", short_help="Aggregate and ask on a Spark cluster.")
app.command(short_help="Load a collector, to size a machine.")(load.load)
app.command(short_help="Show the version and the kernels in use.")(inspect.version)


def main(program: typer.Typer = app) -> None:
    """Run a command line; errors that a user can fix become one line and status 1."""
    try:
        _check_settings()
        program()
    except FaintlyError as error:
        _fail(error, str(error))
    except OSError as error:
        if error.filename is None:
            raise  # not about a file that the user named
        _fail(error, f"{error.filename}: {error.strerror}")


def _check_settings() -> None:
    """Refuse a bad setting now; otherwise it would fail in the middle of the work, or never."""
    if os.environ.keys() & {"FAINTLY_KERNEL", "FAINTLY_THREADS"}:
        from faintly import kernels
        from faintly.kernels.threads import threads

        if kernels.configuration_error():
            raise InvalidInput(kernels.configuration_error())
        threads()


def _fail(error: Exception, message: str) -> NoReturn:
    name = type(error).__name__
    if "--json" in sys.argv:
        emit({"error": name, "message": message})
    typer.secho(f"error: {name}: {message}", fg="red", err=True)
    sys.exit(1)
