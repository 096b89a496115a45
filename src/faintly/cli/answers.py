"""faintly query and faintly top: means of keys, from a sketch file or from a running collector.

Both sources answer with the document that `--json` prints.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from faintly.cli import options
from faintly.cli.options import argument, grouped, option, real, whole, word
from faintly.cli.output import Json, Level, emit, note, progress, read_keys, say, shown, table
from faintly.cli.remote import CaFile, CredentialFile, connect
from faintly.errors import InvalidInput, UnknownKey

if TYPE_CHECKING:
    from faintly.client.transport import Connection
    from faintly.core import Key, Plan, Universe
    from faintly.engine import Reader

ONE_MAP = "the key stands out in only one of its maps, where other keys may be in the way"


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """Options of both commands: whom to ask, and how."""

    above: Annotated[
        float | None, real("With the posterior: the chance that a mean is larger than this.")
    ] = None
    integers: Annotated[
        bool, option("Open universe: keys are integers, as in a Parquet column.", "--integers")
    ] = False
    level: Level = 0.95
    server: Annotated[str | None, option("Ask a collector, such as http://127.0.0.1:8790.")] = None
    collection: Annotated[
        str | None, option("With --server: the collection's name, or its plan's digest.")
    ] = None
    epoch: Annotated[
        str | None,
        option(
            "With --server: an epoch, or all [default: the latest with answers].",
            metavar="NUMBER|all",
        ),
    ] = None
    credential_file: CredentialFile = None
    ca_file: CaFile = None
    explain: Annotated[
        bool, option("Give the promise in full, and explain the terms.", "--explain")
    ] = False
    as_json: Json = False

    @contextmanager
    def source(self, sketch: Path | None) -> Iterator["_File | _Collector"]:
        """Yield the sketch file, or the collection where there is a server."""
        if self.server is None:
            if self.collection is not None or self.epoch is not None:
                raise InvalidInput(
                    "--collection and --epoch belong to a collector; add --server URL"
                )
            if sketch is None:
                raise InvalidInput(
                    "name a sketch file, or a collector: --server URL --collection NAME"
                )
            yield _File(sketch, self.level)
            return
        if self.collection is None:
            raise InvalidInput("say which collection of the collector: --collection NAME")
        with connect(self.server, self.credential_file, self.ca_file) as connection:
            yield _Collector(connection, self.collection, self.epoch, self.level)

    def keys(self, texts: list[str], universe: "Universe") -> list[Any]:
        """Return the keys of a command line in the type that the universe has."""
        if universe.kind != "indexed" and not self.integers:
            return list(texts)
        for text in texts:
            if not re.fullmatch("-?[0-9]{1,20}", text):
                size = universe.size
                held = "any integer" if size is None else f"the numbers 0..{size - 1}"
                raise UnknownKey(f"the keys of this plan are {held}; {text!r} is not one of them")
        return [int(text) for text in texts]


@grouped
def query(
    words: Annotated[
        list[str] | None,
        argument(
            "A sketch file, then keys to ask about; with --server keys alone.",
            metavar="[SKETCH] [KEY]...",
            show_default=False,
        ),
    ] = None,
    keys_from: Annotated[
        Path | None, option("Read further keys from this file, one per line.")
    ] = None,
    posterior: Annotated[
        bool, option("Show posterior means first: they use what all keys show.", "--posterior")
    ] = False,
    *,
    shared: QueryOptions,
) -> None:
    """Estimate the mean of each key over the reporting clients, with its error.

    Asks a sketch file, or with --server a collection of a running collector.
    """
    first, *others = words or [""]
    sketch = Path(first) if first and shared.server is None else None
    texts = others if shared.server is None else list(words or [])
    texts += read_keys(keys_from) if keys_from else []
    with shared.source(sketch) as source:
        if not texts:
            raise InvalidInput("give at least one key, or --keys-from FILE")
        keys = shared.keys(texts, source.plan.universe)
        found = source.estimates(keys, posterior=posterior, above=shared.above)
    if shared.as_json:
        emit(found)
        return
    alone = "posterior" not in found
    together = [f"{row['low_all']:.5f} … {row['high_all']:.5f}" for row in found["estimates"]]
    _show_estimates(found, "over all keys asked" if alone else "", together)
    say(
        f"{found['reports']:,} reports. Noise floor of one key that nobody holds: "
        f"±{found['noise_floor']:.5f}."
    )
    _finish(found, source.plan, shared.explain)


@grouped
def top(
    sketch: Annotated[
        Path | None, argument("A sketch file; none with --server.", show_default=False)
    ] = None,
    count: Annotated[int, whole("Rows to show.", "-n", "--count")] = 20,
    keys_from: Annotated[
        Path | None, option("Choose among the keys in this file (needed for an open universe).")
    ] = None,
    control: Annotated[
        options.Control,
        word("family: chance of any false row; fdr: share of false rows.", options.Control),
    ] = "family",
    false_rate: Annotated[float, real("The bound that --control keeps.")] = 0.05,
    posterior: Annotated[
        bool | None,
        option(
            "Show posterior means first: they use what all keys together show [default: where "
            "there are enough keys].",
            "--posterior/--no-posterior",
            show_default=False,
        ),
    ] = None,
    *,
    shared: QueryOptions,
) -> None:
    """List the keys with the largest means, and mark those that stand out from the noise.

    Asks a sketch file, or with --server a collection of a running collector.
    """
    from faintly.engine.answers import populated

    if shared.server is not None and sketch is not None:
        raise InvalidInput("ask a sketch file or a collector, not both: leave one out")
    with shared.source(sketch) as source:
        universe = source.plan.universe
        if keys_from is None and universe.size is None:
            raise InvalidInput(
                "an open universe has no list of keys; name some with --keys-from FILE"
            )
        keys = shared.keys(read_keys(keys_from), universe) if keys_from else None
        if posterior is None:
            posterior = populated(source.plan, len(keys or ())) or shared.above is not None
        how = {"count": count, "control": control, "false_rate": false_rate}
        found = source.top(keys, **how, posterior=posterior, above=shared.above)
    if shared.as_json:
        emit(found)
        return
    _show_estimates(found, "significant", [row["verdict"] for row in found["estimates"]])
    _explain_top(found)
    _finish(found, source.plan, shared.explain)


def _explain_top(found: dict[str, Any]) -> None:
    promise = (
        "the chance that any row marked yes is held by nobody"
        if found["control"] == "family"
        else "the expected share of rows marked yes that are held by nobody"
    )
    limit = "none" if found["threshold"] is None else f"{found['threshold']:.5f}"
    say(
        f"{found['reports']:,} reports, {found['compared']:,} keys compared. The smallest "
        f"unbiased mean that stands out over all of them is {limit}: {promise} is at most "
        f"{found['false_rate']:.0%}. Noise floor of one key that nobody holds: "
        f"±{found['noise_floor']:.5f}."
    )
    if any(row["verdict"] == "one map" for row in found["estimates"]):
        say(f"one map: {ONE_MAP}.")


def _show_estimates(found: dict[str, Any], last: str, cells: Sequence[str]) -> None:
    """Print a row for each key of a document, with an extra last column if it has a heading."""
    interval, about = f"{found['level']:.0%} interval", found.get("posterior")
    columns = [("mean", "mean"), ("std. error", "stderr"), (interval, "low high")]
    if about is not None:
        columns = [("posterior", "posterior_mean"), (interval, "posterior_low posterior_high")]
        if about["threshold"] is not None:
            columns.append((f"P(> {about['threshold']:g})", "posterior_above"))
        columns += [("unbiased", "mean"), (interval, "low high")]
    table(
        ["key", *(heading for heading, _ in columns), *([last] if last else [])],
        (
            [shown(row["key"]), *(_cell(row, names) for _, names in columns)] + [cell] * bool(last)
            for row, cell in zip(found["estimates"], cells, strict=True)
        ),
    )


def _cell(row: dict[str, Any], names: str) -> str:
    """Return one number of a row, or the two of an interval."""
    numbers = [row[name] for name in names.split()]
    if None in numbers:  # there is no posterior
        return "maps disagree" if len(numbers) > 1 else ""
    form = ".1%" if names == "posterior_above" else ".5f"
    return " … ".join(format(number, form) for number in numbers)


def _finish(found: dict[str, Any], plan: "Plan", explain: bool) -> None:
    """Print the end of every answer: its notes, and the promise to the people in the data."""
    from faintly.mechanisms import mechanism_of

    about = found.get("posterior")
    if about is not None:
        good = " It errs less over them as a whole; at a key chosen because it is truly large,"
        more = f"{good} the unbiased mean errs less." if explain else ""
        say(f"The posterior was fitted to {about['population']}.{more}")
    for sentence in [*(about or {}).get("notes", []), *found["notes"]]:
        note(sentence)
    guarantee = mechanism_of(plan).guarantee()
    say(guarantee.describe() if explain else f"{guarantee.short()} In full: --explain")


class _File:
    """A sketch file."""

    def __init__(self, path: Path, level: float) -> None:
        from faintly.engine import Reader
        from faintly.engine.files import load_sketch

        self._reader = Reader(load_sketch(path), level)
        self.plan = self._reader.sketch.plan

    def estimates(self, keys: "list[Key]", **how: Any) -> dict[str, Any]:
        from faintly.engine.documents import estimate_document

        with _watched(self._reader) as reader:
            if how["posterior"] or how["above"] is not None:
                return estimate_document(reader.posterior(keys, how["above"]))
            return estimate_document(reader.estimate(keys))

    def top(self, candidates: "list[Key] | None", **how: Any) -> dict[str, Any]:
        from faintly.engine.documents import top_document

        with _watched(self._reader) as reader:
            return top_document(reader.top(how.pop("count"), candidates, **how))


class _Collector:
    """A collection of a collector."""

    def __init__(
        self, connection: "Connection", named: str, epoch: str | None, level: float
    ) -> None:
        from faintly.client.transport import named_path
        from faintly.core import Plan

        self._connection, self._path = connection, named_path(named)
        self._common = {"level": level, "epoch": _epoch(epoch)}
        self.plan = Plan.from_json(connection.call("GET", f"{self._path}/plan").body)

    def estimates(self, keys: "list[Key]", **how: Any) -> dict[str, Any]:
        how["posterior"] = how["posterior"] or how["above"] is not None
        return self._ask("estimates", {"keys": keys} | how)

    def top(self, candidates: "list[Key] | None", **how: Any) -> dict[str, Any]:
        from urllib.parse import urlencode

        if candidates is not None:
            return self._ask("top", {"candidates": candidates} | how)
        fields = self._common | how | {"posterior": str(how["posterior"]).lower()}
        query = urlencode({name: value for name, value in fields.items() if value is not None})
        return self._connection.ask("GET", f"{self._path}/top?{query}")

    def _ask(self, what: str, fields: dict[str, Any]) -> dict[str, Any]:
        return self._connection.ask("POST", f"{self._path}/{what}", self._common | fields)


def _epoch(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput(f"an epoch is a number, or all; got {text!r}")
    return int(text)


@contextmanager
def _watched(reader: "Reader") -> Iterator["Reader"]:
    """Yield the reader, with a progress display where it has to read report by report."""
    with progress() as display:
        task = display.add_task("reading reports", total=100, visible=False)

        def done(share: float) -> None:
            display.update(task, completed=round(100 * share), visible=share < 1)

        yield reader.watched(lambda: None, done)
