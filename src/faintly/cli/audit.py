"""faintly audit: does a plan keep its promise?"""

from typing import Annotated

import typer

from faintly.cli.options import option, whole
from faintly.cli.output import Json, PlanFile, emit, note, say, table


def audit(
    plan: PlanFile,
    samples: Annotated[
        int, whole("Reports sampled for each input of the client check.", least=100)
    ] = 20_000,
    client: Annotated[
        str | None,
        option(
            "Audit another client, by the command that makes its reports, such as 'node "
            "clients/js/bridge.mjs'.",
            metavar="COMMAND",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a plan's promise: by its integers, by enumeration, and on the real client.

    Ends with status 0 if every check holds and 1 otherwise, for use in CI.
    """
    from contextlib import nullcontext

    from faintly.audit import ExternalClient
    from faintly.audit import audit as run
    from faintly.engine.files import parse_plan

    # A plan with a false promise must reach the audit, so its mechanism does not check it here.
    loaded = parse_plan(plan)
    with nullcontext() if client is None else ExternalClient(client) as other:
        result = run(
            loaded,
            samples=samples,
            encode=other.encode if other is not None else None,
            draw=other.sample if other is not None else None,
            on_check=lambda name: None if as_json else note(f"{name} …"),
        )
    if as_json:
        emit(result.document())
    else:
        table(
            ["check", "verdict", "measured", "allowed"],
            (
                (
                    finding.check,
                    "holds" if finding.holds else "BROKEN",
                    f"{finding.measured:.6g}",
                    f"{finding.allowed:.6g}",
                )
                for finding in result.findings
            ),
            title=f"plan {result.digest}",
        )
        for finding in result.findings:
            say(f"{finding.check}: {finding.evidence}")
        say("The promise holds." if result.passed else "THE PROMISE IS BROKEN: do not use this.")
    if not result.passed:
        raise typer.Exit(1)
