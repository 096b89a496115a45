"""From names of experiments to a folder of results, figures and a report."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from evaluation import claims, figures, report, results
from evaluation.claims import verdicts
from evaluation.experiments import Experiment, experiments
from evaluation.grids import Grid
from evaluation.methods import BUILT_IN, METHODS
from evaluation.results import Results
from evaluation.runner import Progress, plan_tasks, run_all
from evaluation.timing import Session, Stopwatch, describe
from evaluation.verdict import Verdict
from faintly.errors import InvalidInput

ALL = "all"
REPORT = "report.html"


@dataclass(frozen=True)
class Reproduction:
    """What a run gave, and where it is."""

    results: Results
    verdicts: list[Verdict]
    left_out: dict[str, str]
    files: list[Path]
    seconds: float  # of this session alone
    sessions: list[Session]  # earlier ones in the same folder first
    grid: Grid

    @property
    def contradicted(self) -> list[Verdict]:
        """Return the claims of order that the runs contradict."""
        return [one for one in self.verdicts if one.kind == "order" and one.holds is False]

    @property
    def good(self) -> bool:
        """Return whether every task was done and no order of methods is wrong."""
        return not self.results.failures and not self.contradicted


def choose(names: Iterable[str], grid: Grid) -> tuple[Experiment, ...]:
    """Return the experiments of these names; all of them for none, or for `all`."""
    known = experiments(grid)
    wanted = list(dict.fromkeys(names)) or [ALL]
    for name in wanted:
        if name != ALL and name not in known:
            raise InvalidInput(f"no experiment {name!r}; there are {', '.join([*known, ALL])}")
    return tuple(one for name, one in known.items() if name in wanted or ALL in wanted)


def reproduce(
    names: Iterable[str],
    grid: Grid,
    out: Path,
    *,
    runs: int | None = None,
    jobs: int = 2,
    folder: str | None = None,
    methods: Iterable[str] = (),
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Reproduction:
    """Run the experiments, or what is left of them, and write everything into `out`.

    Args:
        names: experiments; all if empty.
        grid: sizes.
        out: folder of the log, the results, the figures and the report.
        runs: independent runs; the grid's number if None.
        jobs: processes.
        folder: where stored datasets are; None: what FAINTLY_DATA says.
        methods: names of methods to run; all if empty.
        on_progress: called after each task.
    """
    began = time.monotonic()
    only = list(dict.fromkeys(methods))
    unknown = [name for name in only if name not in METHODS]
    if unknown:
        raise InvalidInput(f"no method {unknown[0]!r}; there are {', '.join(METHODS)}")
    others = tuple(name for name in only if name not in BUILT_IN)  # no experiment lists them
    chosen = tuple(one.beside(others) for one in choose(names, grid))
    count = grid.runs if runs is None else runs
    plan = plan_tasks(chosen, count, folder, only)
    out.mkdir(parents=True, exist_ok=True)
    watch = Stopwatch(out, jobs)
    records = run_all(
        plan.tasks, out, jobs=jobs, folder=folder, on_progress=on_progress, on_record=watch.add
    )
    found = Results(chosen, records, count)
    written = results.write(found, out)
    summary = found.summary()
    for experiment in chosen:
        if not experiment.table:
            written += figures.draw(experiment, summary, out / "figures")
    sessions = watch.stop()
    scene = report.Scene(grid, plan.left_out, out / "figures", describe(sessions))
    judged = verdicts(found, quick=grid.name == "quick")
    written.append(claims.write(judged, out))
    (out / REPORT).write_text(report.html(found, judged, scene), encoding="utf-8")
    seconds = time.monotonic() - began
    written.append(out / REPORT)
    return Reproduction(found, judged, plan.left_out, written, seconds, sessions, grid)
