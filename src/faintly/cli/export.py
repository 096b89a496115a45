"""faintly export: the raw reports of a collection, for other programs."""

from typing import Annotated

from faintly.cli.options import whole
from faintly.cli.output import Json, Output, result
from faintly.cli.remote import CollectionOption, Folder, server_extra


def export(
    folder: Folder,
    digest: CollectionOption,
    output: Output,
    epoch: Annotated[int | None, whole("One epoch.", least=0, show_default="all epochs")] = None,
    as_json: Json = False,
) -> None:
    """Write the sealed reports of a collection, in shuffled order, while a collector runs or not.

    A name that ends with .parquet gives Parquet with the columns epoch and record; any other
    gives a file of reports, which aggregate reads. Collections that drop their reports have none.
    """
    with server_extra():
        from faintly.collector.admin.export import export_parquet, export_reports, find

        write = export_parquet if output.suffix == ".parquet" else export_reports
        count = write(folder, find(folder, digest), epoch, output)
    result(as_json, {"reports": count, "file": str(output)}, f"{count:,} reports in {output}")
