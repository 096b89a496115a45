"""What commands that read rows of data share: files, columns, repeated rows, progress."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Which columns of rows to read, and what to do with repeated ones."""

    client: Annotated[
        str | None, option("Column of the clients [default: client, or an obvious name].")
    ] = None
    key: Annotated[
        str | None, option("Column of the keys [default: item, key, or an obvious name].")
    ] = None
    value: Annotated[
        str | None,
        option(
            "Column of the values; none: every row counts as 1 [default: value, if there is one]."
        ),
    ] = None
    duplicates: Annotated[
        options.Duplicates | None,
        word(
            "Rows that repeat an item of their client: refuse them, count them once, or add up "
            "their values, to 1 at most.",
            options.Duplicates,
        ),
    ] = None

    def read(self, files: Sequence[Path], *, strict: bool = True) -> "Records":
        """Return the rows of all files, showing progress."""
        with progress() as bar:
            task = bar.add_task(f"reading {files[0].name}", total=None)
            # Imported late, so that the bar shows first.
            from faintly.data import DUPLICATES, Columns, find_dataset, read_records

            def show(name: str, rows: int, share: float | None) -> None:
                bar.update(task, description=f"reading {name}: {rows:,} rows")
                if share is not None:
                    bar.update(task, completed=round(100 * share), total=100)

            columns = Columns(**asdict(self) | {"duplicates": self.duplicates or DUPLICATES[0]})
            found = [find_dataset(file) for file in files]
            return read_records(found, columns, strict=strict, on_read=show)
