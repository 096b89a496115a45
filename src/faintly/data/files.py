"""Datasets on disk: one file of rows, or a folder with `data.parquet` in it.

A folder may also hold `items.parquet`, which names the integer items. A CSV file with
MovieLens' columns is read as ratings, and .dat and .fimi files as sets.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from faintly.data.columns import Source
from faintly.data.fimi import read_fimi
from faintly.data.movielens import is_ratings, read_ratings
from faintly.data.records import Records
from faintly.data.tables import load, records_from_arrow
from faintly.data.text import key_column, read_csv, read_jsonl
from faintly.errors import InvalidData

DATA_FOLDER = "FAINTLY_DATA"  # environment variable with the folder of named datasets
SETS = (".dat", ".fimi")
READABLE = (".parquet", ".csv", ".jsonl", ".ndjson", *SETS)


def read_records(path: str | Path, *, strict: bool = True) -> Records:
    """Return the rows of a Parquet, CSV, JSON-lines or FIMI file, or of a dataset folder.

    Columns are client, item or key, and optionally value (1.0 where there is none).
    MovieLens' ratings.csv is known by its own columns.

    Args:
        path: the file or folder.
        strict: refuse rows that a plan may not take; False leaves them to `projected`. A file
            that is not of its kind, and a row without a client or a key, is refused anyway.

    Raises:
        InvalidData: the file is missing, empty, not of its kind, or a row breaks a rule.
        MissingDependency: Parquet without pyarrow.
    """
    file = _data_file(Path(path))
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        return _read_parquet(file, strict)
    if suffix in SETS:
        return read_fimi(file, strict=strict)
    if suffix == ".csv":
        read = read_ratings if is_ratings(file) else read_csv
        return read(file, strict=strict)
    if suffix in READABLE:
        return read_jsonl(file, strict=strict)
    raise InvalidData(f"{file.name} is not one of {', '.join(READABLE)}; convert it first")


def read_names(path: str | Path) -> tuple[str, ...] | None:
    """Return the item names of a dataset, in item order; None where it has no `items.parquet`.

    Args:
        path: a dataset folder, or its `data.parquet`.
    """
    folder = Path(path)
    file = (folder if folder.is_dir() else folder.parent) / "items.parquet"
    if not file.is_file():
        return None
    if not {"item", "name"} <= set(_column_names(file)):
        raise InvalidData(f"{file.name} must have the columns item and name")
    table = _read_table(file, ["item", "name"])
    items, names = table.column("item").to_numpy(), table.column("name").to_pylist()
    order = np.argsort(items, kind="stable")
    once = np.array_equal(items[order], np.arange(len(items)))
    if not once or not all(isinstance(name, str) for name in names):
        raise InvalidData(f"{file.name} must name each item 0..{len(items) - 1} once, in text")
    return tuple(names[position] for position in order.tolist())


def find_dataset(name: str | Path, folder: str | Path | None = None) -> Path:
    """Return the file or folder that `name` means: a path, or a name under a folder.

    Args:
        name: a path, or the name of a dataset.
        folder: where named datasets are; by default what FAINTLY_DATA says.
    """
    path = Path(name)
    if folder is None and _is_dataset(path):
        return path
    root = os.environ.get(DATA_FOLDER) if folder is None else str(folder)
    if root and path.name == str(path) and _is_dataset(Path(root) / path):
        return Path(root) / path
    if path.is_file():
        raise InvalidData(f"{path.name} is not one of {', '.join(READABLE)}; convert it first")
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
    return path.is_file() and path.suffix.lower() in READABLE


def _data_file(path: Path) -> Path:
    file = path / "data.parquet" if path.is_dir() else path
    if not file.is_file():
        what = "holds no data.parquet" if path.is_dir() else "does not exist"
        raise InvalidData(f"{path.name} {what}; give a file of rows or a dataset folder")
    return file


def _read_parquet(file: Path, strict: bool) -> Records:
    names = _column_names(file)
    wanted = ["client", key_column(names, file.name)]
    wanted += ["value"] if "value" in names else []
    return records_from_arrow(_read_table(file, wanted), Source("row", file.name, strict=strict))


def _column_names(file: Path) -> list[str]:
    parquet = load("pyarrow.parquet", "reading Parquet")
    return list(_opened(parquet.read_schema, file).names)


def _read_table(file: Path, columns: list[str]) -> Any:
    parquet = load("pyarrow.parquet", "reading Parquet")
    # Without this, a folder named like key=value would add a column of its own.
    return _opened(parquet.read_table, file, columns=columns, partitioning=None)


def _opened(read: Any, file: Path, **options: Any) -> Any:
    errors = load("pyarrow", "reading Parquet").ArrowException
    try:
        return read(file, **options)
    except (errors, OSError):
        raise InvalidData(f"{file.name} is not a readable Parquet file; write it again") from None
