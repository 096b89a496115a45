"""faintly serve: the collector."""

from pathlib import Path
from typing import Annotated

from faintly.cli import options
from faintly.cli.options import option, whole, word
from faintly.cli.output import Json, result
from faintly.cli.remote import needs_collector


def serve(
    data: Annotated[
        Path | None,
        option(
            "Folder to keep everything in; created if needed.", file_okay=False, show_default=False
        ),
    ] = None,
    port: Annotated[int | None, whole("Port; 0 for any.  [default: 8790]")] = None,
    host: Annotated[str | None, option("Address to listen on.  [default: 127.0.0.1]")] = None,
    config: Annotated[Path | None, option("Settings in a TOML file.")] = None,
    cors: Annotated[
        list[str] | None,
        option(
            "Origin whose pages may call, such as https://example.org; repeatable.",
            metavar="ORIGIN",
        ),
    ] = None,
    demo: Annotated[
        Path | None,
        option("Folder of a page to serve under /demo, such as examples/web.", file_okay=False),
    ] = None,
    tls_cert: Annotated[Path | None, option("Certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, option("Its private key, PEM.")] = None,
    proxy: Annotated[
        bool | None,
        option("A proxy forwards other machines here: require credentials.", "--proxy"),
    ] = None,
    allow_anyone: Annotated[
        bool | None,
        option("Let other machines reach it even without credentials.", "--allow-anyone"),
    ] = None,
    log_level: Annotated[
        options.LogLevel | None,
        word("Lowest level that is logged.  [default: info]", options.LogLevel),
    ] = None,
    as_json: Json = False,
) -> None:
    """Collect reports over HTTP, keep them, count each once, and answer.

    Flags override FAINTLY_SERVE_ variables, which override the file. One folder has one server.
    On SIGTERM or Ctrl-C it takes no more reports, seals what it has and ends with status 0.
    """
    with needs_collector():
        from faintly_collector.http.serve import serve as run
        from faintly_collector.http.settings import read_settings

    settings = read_settings(
        config,
        data=data,
        port=port,
        host=host,
        cors=tuple(cors) if cors else None,
        demo=demo,
        tls_cert=tls_cert,
        tls_key=tls_key,
        proxy=proxy,
        allow_anyone=allow_anyone,
        log_level=log_level,
    )

    def ready(address: str) -> None:
        result(
            as_json,
            {"url": address, "port": int(address.rpartition(":")[2])},
            f"Listening on {address}, data in {settings.data}. Documentation: {address}/docs",
        )

    run(settings, ready)
