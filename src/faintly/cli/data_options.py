"""Shared by commands that read rows of data: files, columns, repeated rows, progress."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faintly.cli import options
from faintly.cli.options import argument, option, word
from faintly.cli.output import progress

if TYPE_CHECKING:
    from faintly.data import Records

KINDS = "Parquet, CSV, TSV, JSONL or FIMI, gzipped or not; - is standard input."
Files = Annotated[
    list[Path], argument(f"Files of rows: {KINDS}", show_default=False, metavar="FILE")
]
FileOptions = Annotated[
    list[Path], option(f"Rows: {KINDS} Repeatable.", "--data", show_default=False)
]
ClientColumn = Annotated[
    str | None, option("Column of the clients [default: client, or an obvious name].", "--client")
]
KeyColumn = Annotated[
    str | None, option("Column of the keys [default: item, key, or an obvious name].", "--key")
]
ValueColumn = Annotated[
    str | None,
    option(
        "Column of the values; none: every row counts as 1 [default: value, if there is one].",
        "--value",
    ),
]
Duplicates = Annotated[
    options.Duplicates | None,
    word(
        "Rows that repeat an item of their client: refuse them, count them once, or sum "
        "their values up to 1.",
        options.Duplicates,
    ),
]


def read(
    files: Sequence[Path],
    client: str | None,
    key: str | None,
    value: str | None,
    duplicates: str | None,
    *,
    strict: bool = True,
) -> "Records":
    """Return the rows of all files, showing how far they are read."""
    with progress() as bar:
        task = bar.add_task(f"reading {files[0].name}", total=None)
        from faintly.data import DUPLICATES, Columns, find_dataset, read_records  # after a sign

        def show(name: str, rows: int, share: float | None) -> None:
            bar.update(task, description=f"reading {name}: {rows:,} rows")
            if share is not None:
                bar.update(task, completed=round(100 * share), total=100)

        repeats = duplicates or DUPLICATES[0]
        columns = Columns(client=client, key=key, value=value, duplicates=repeats)
        found = [find_dataset(file) for file in files]
        return read_records(found, columns, strict=strict, on_read=show)
