"""Datasets on disk: files of rows, or a folder with `data.parquet` in it; and standard input.

Files whose name ends in .dat or .fimi are read as sets.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from faintly.data.naming import Columns
from faintly.data.opening import READABLE, STDIN, OnRead, kind_of, opened
from faintly.data.records import Records
from faintly.data.tables import ArrowRows
from faintly.data.text import TextRows
from faintly.errors import InvalidData, InvalidInput

DATA_FOLDER = "FAINTLY_DATA"  # environment variable with the folder of named datasets

Paths = str | Path | Sequence[str | Path]


def read_records(
    path: Paths,
    columns: Columns | None = None,
    *,
    strict: bool = True,
    on_read: OnRead = lambda *_: None,
) -> Records:
    """Return the rows of Parquet, CSV, TSV, JSON-lines or FIMI files, or of a dataset folder.

    Args:
        path: a file or folder, several of them, or - for standard input. Files may be gzipped.
        columns: which columns to read, and what to do with repeated rows. By default client, item
            or key, and value (1.0 where there is none), or obvious names for the first two.
        strict: refuse rows that a plan may not take; False leaves them to `projected`. A file
            that is not of its kind, and a row without a client or a key, is refused anyway.
        on_read: called while rows are read, for progress.

    Raises:
        InvalidData: a file is missing, empty, not of its kind, or a row breaks a rule.
        MissingDependency: Parquet without pyarrow.
    """
    columns = Columns() if columns is None else columns
    listed = [path] if isinstance(path, str | Path) else list(path)
    files = [_data_file(Path(one)) for one in listed]
    if not files:
        raise InvalidInput("give at least one file to read")
    if files.count(STDIN) > 1:
        raise InvalidInput("standard input can be read once only; give - once")
    rows: TextRows | ArrowRows | None = None
    kinds = set()
    for file in files:
        if file != STDIN and kind_of(file) is None:
            raise InvalidData(f"{file.name} is not one of {READABLE}; convert it first")
        with opened(file) as source:
            # Only CSV and JSON lines may be mixed.
            kinds.add(source.kind if source.kind in ("parquet", "sets") else "text")
            if len(kinds) > 1:
                raise InvalidData(
                    f"{source.name} is not of the same kind as the files before it; convert it, "
                    "because clients cannot be matched between kinds"
                )
            if rows is None:
                rows = (ArrowRows if kinds == {"parquet"} else TextRows)(columns, strict, on_read)
            rows.read(source)
    assert rows is not None
    return rows.done()


def find_dataset(name: str | Path, folder: str | Path | None = None) -> Path:
    """Return the file or folder that `name` means: a path, or a name under a folder.

    Args:
        name: a path, or the name of a dataset.
        folder: where named datasets are; by default what FAINTLY_DATA says.
    """
    path = Path(name)
    if path == STDIN or (folder is None and _is_dataset(path)):
        return path
    root = os.environ.get(DATA_FOLDER) if folder is None else str(folder)
    if root and path.name == str(path) and _is_dataset(Path(root) / path):
        return Path(root) / path
    if path.is_file():
        raise InvalidData(f"{path.name} is not one of {READABLE}; convert it first")
    if path.is_dir() and not root:
        raise InvalidData(f"folder {path.name} holds no data.parquet; name a file in it")
    if not root:
        raise InvalidData(
            f"no file or dataset {str(name)!r}; give a path, or set {DATA_FOLDER} to the "
            "folder that holds named datasets"
        )
    known = sorted(entry.name for entry in Path(root).glob("*") if _is_dataset(entry))
    where = DATA_FOLDER if folder is None else "the data folder"
    raise InvalidData(
        f"no file or dataset {str(name)!r}; {where} has {', '.join(known) or 'no datasets'}"
    )


def _is_dataset(path: Path) -> bool:
    if path.is_dir():
        return (path / "data.parquet").is_file()
    return path.is_file() and kind_of(path) is not None


def _data_file(path: Path) -> Path:
    if path == STDIN:
        return path
    file = path / "data.parquet" if path.is_dir() else path
    if not file.is_file():
        what = "holds no data.parquet" if path.is_dir() else "does not exist"
        raise InvalidData(f"{path.name} {what}; give a file of rows or a dataset folder")
    return file
