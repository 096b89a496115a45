"""No kernel becomes slow unnoticed: ratios that hold on any machine, with generous limits.

Each limit is about twice what is measured, or more, and each check may try again, so that a busy
machine passes. The mutant beside them is the reference: judged as if it were compiled, it must
fail.
"""

import math
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from benchmarks import Effort, bins, compare, comparison, samples
from benchmarks.decode import all_totals
from benchmarks.measure import one_core
from faintly import kernels
from faintly.core import Hashing
from faintly.kernels import compiled, reference
from faintly.mechanisms.orthogonal.rows import combined, images
from faintly.primitives import fields
from faintly.primitives.hashing import LinearBins, LinearMaps

pytestmark = pytest.mark.long
TRIES = 8
EFFORT = Effort(rounds=9, seconds=0.4)
LIMITS = {"transform": 8.0, "scatter": 2.5, "decode": 5_000.0, "bins": 2.0}
MAPS = LinearMaps(Hashing(family="linear", maps=1, bits=20), bytes(16), 2**20)
Cases = dict[str, tuple[tuple, dict]]
FASTER = 2.0  # times as fast as the reference: what each compiled kernel is at least,
# but for two. gcc leaves the loop of round_values scalar ("control flow in loop"), while the
# passes of the reference run over vectors. It was measured 1.9 times as fast on these values,
# which caches hold, and 3.5 times on sixteen times as many. shuffle_rows mostly waits for memory:
# 1.6 times as fast on some machines.
SLOWER = {"round_values": 1.4, "shuffle_rows": 1.2}


@pytest.fixture(autouse=True)
def _only_with_c() -> None:
    if kernels.active != "c":
        pytest.skip("the C kernels are not active: there is nothing to guard")


def lowest_ratio(ours, theirs, limit, before=None) -> float:
    """Return ours / theirs: the first that is within the limit, or the lowest of all tries."""
    best = math.inf
    for _ in range(TRIES):
        with one_core():
            mine, other = compare(ours, theirs, EFFORT, before)
        best = min(best, mine.best / other.best)
        if best <= limit:
            break
    return best


def transform_ratio(kernel: ModuleType | SimpleNamespace) -> float:
    source = samples.generator().integers(-9, 10, (1, 2**20)).astype(np.int32)
    work = source.copy()
    return lowest_ratio(
        lambda: kernel.walsh_hadamard(work),
        samples.copier(source),
        LIMITS["transform"],
        before=lambda: np.copyto(work, source),
    )


def scatter_ratio(kernel: ModuleType | SimpleNamespace) -> float:
    draw = samples.generator()
    index = draw.integers(0, 2**14, 2**20, dtype=np.uint32)
    weight = np.ones(2**20, dtype=np.int32)
    tables = np.zeros((1, 2**14), dtype=np.int32)  # in the first cache, where overhead shows
    return lowest_ratio(
        lambda: kernel.scatter_add(tables, index, weight, 0),
        lambda: comparison.bare_add(tables, index, weight),
        LIMITS["scatter"],
    )


def test_a_transform_costs_a_few_copies():
    ratio = transform_ratio(compiled)
    assert ratio <= LIMITS["transform"], (
        f"transform / copy: {ratio:.2f}, limit {LIMITS['transform']}"
    )


def test_adding_cells_costs_little_more_than_a_bare_addition():
    ratio = scatter_ratio(compiled)
    assert ratio <= LIMITS["scatter"], f"scatter / bare add: {ratio:.2f}, limit {LIMITS['scatter']}"


@pytest.mark.parametrize("measured", [transform_ratio, scatter_ratio])
def test_the_guard_notices_a_slow_kernel(measured):
    """Mutant: the numpy reference in place of the compiled kernel is beyond the same limit.

    Cells are added three times. Once takes only five times a bare addition, and noise can halve
    the lowest of eight tries.
    """

    def scatter_add(*arguments):
        for _ in range(3):
            reference.scatter_add(*arguments)

    name = measured.__name__.removesuffix("_ratio")
    slow = SimpleNamespace(walsh_hadamard=reference.walsh_hadamard, scatter_add=scatter_add)
    ratio = measured(slow)
    assert ratio > LIMITS[name], f"{name} of the reference: {ratio:.2f}, limit {LIMITS[name]}"


def test_tables_decode_thousands_of_times_faster_than_the_papers_loop():
    reports = keys = 100_000
    plan = samples.one_cell_plan(reports, keys)
    batches = list(samples.batches(plan, reports, reports))
    ids = np.arange(keys, dtype=np.uint64)
    seeds, values = samples.paper_reports(reports)
    limit = keys / 10 / LIMITS["decode"]  # the loop runs for ten keys
    ratio = lowest_ratio(
        lambda: all_totals(plan, batches, ids),
        lambda: comparison.paper_loop(seeds, values, ids[:10]),
        limit,
    )
    gain = keys / 10 / ratio
    assert gain >= LIMITS["decode"], f"loop / decode: {gain:,.0f}, at least {LIMITS['decode']:,.0f}"


def bins_ratio(form: str) -> float:
    """Return what all keys of a form with bins take, beside the dense form with as many cells."""
    best = math.inf
    for _ in range(TRIES):
        ours, dense = bins.pairs(form, EFFORT, 2**17, 16)[1]
        best = min(best, ours.best / dense.best)
        if best <= LIMITS["bins"]:
            break
    return best


@pytest.mark.parametrize("form", bins.FORMS)
def test_tables_of_bins_cost_little_more_than_dense_ones(form):
    ratio = bins_ratio(form)
    assert ratio <= LIMITS["bins"], f"{form} / dense: {ratio:.2f}, limit {LIMITS['bins']}"


def test_the_guard_notices_slow_bins(monkeypatch):
    """Mutant: bins are spread by the numpy reference."""
    monkeypatch.setattr(kernels, "spread_bins", reference.spread_bins)
    ratio = bins_ratio("unsigned")
    assert ratio > LIMITS["bins"], f"unsigned / dense: {ratio:.2f}, limit {LIMITS['bins']}"


def shared_cases(draw: np.random.Generator) -> Cases:
    """Return arguments for kernels of the server, large enough that calling it costs nothing.

    Two are not among them: scatter_add and walsh_hadamard have limits of their own above.
    """
    words = draw.integers(0, 2**20, 2**14, dtype=np.uint32)
    ids, some = words.astype(np.uint64), words[:20].astype(np.uint64)
    seeds = draw.integers(0, 2**40, 2**14, dtype=np.uint64)
    values = draw.integers(-99, 100, (2**14, 16))
    weight = np.ones(2**14, np.int32)
    offsets, odd = np.arange(0, 2**14 + 1, 16), (words & 1).astype(np.uint8)
    slots = np.stack([words % 2, 1 << words % 32, words * 0, words & 1]).astype(np.uint32)
    tables = np.ones((1, 2**20), np.int32)
    solve = (offsets, words, words[:, None], odd, words[: 2**10, None])
    records = draw.integers(0, 256, (2**18, 3), dtype=np.uint8)
    return {
        "total_mass": ((tables,), {}),
        "gather": ((tables, ids, MAPS, 1), {}),
        "map_codes": ((ids, words[:4] | 1, words[4:8], 20), {}),
        "hash_ids": ((7, ids, 1), {}),
        "read_cells": ((words, weight, words[:20]), {}),
        "read_hashed": ((seeds, values, some), {}),
        "read_hashed blake2s": ((seeds[: 2**11], values[: 2**11], some[:4], "blake2s"), {}),
        "hash_each": ((seeds, ids, 1), {}),
        "hash_words": ((seeds, ids, 1, 4), {}),
        "hash_wide": ((seeds[: 2**12], ids[: 2**12], 8), {}),
        "solve_gf2": (solve, {}),
        "read_parity": ((seeds, words[:, None], some), {}),
        "read_slots": ((seeds, slots, some, 1), {}),
        "project_prf": ((seeds[: 2**10], offsets, ids, odd, 64), {}),
        "project_linear": ((seeds[: 2**10], offsets, words, odd), {"groups": 64, "bits": 20}),
        "shuffle_rows": ((records, draw.integers(0, 2**32, 2**18, dtype=np.uint32)), {}),
    }


def field_cases(draw: np.random.Generator) -> Cases:
    """Return arguments for kernels over fields, likewise."""
    field, offsets = fields.field_of(4), np.arange(0, 2**9 + 1, 16)
    rows = draw.integers(0, 4, (2**9, 24)).astype(np.uint8)
    seeds, ids = draw.integers(0, 2**40, (2, 2**9), dtype=np.uint64)
    read = (seeds, rows, ids[:20], np.array([3, -1, -1, -1]))
    words, counts = draw.integers(0, 2**32, (2**9, 2), dtype=np.uint32), np.full(2**5, 2)
    return {
        "solve_field": ((offsets, rows, rows[:, 0], rows[: 2**5], field), {}),
        "solve_words": (
            (offsets, words[:, 0].copy(), words, rows[:, 0].copy(), words[: 2**5]),
            {"field": field, "size": 32},
        ),
        "add_points": (
            (words[: 2**5] % 4, np.tile(np.arange(2), 2**5), rows[: 2**6, 0], counts, 2),
            {},
        ),
        "read_inner": (read, {"field": field, "family": "prf"}),
        "read_polynomial": (
            (seeds, rows.astype(np.uint32), *read[2:]),
            {"bits": 2, "hashed": True},
        ),
    }


def client_cases(draw: np.random.Generator) -> Cases:
    """Return arguments for kernels of clients and reports, likewise."""
    seeds, ids = draw.integers(0, 2**40, (2, 2**12), dtype=np.uint64)
    held = (seeds[: 2**8], np.arange(0, 2**12 + 1, 16), ids)
    amounts = draw.integers(-99, 100, 2**12).astype(np.int32)
    sixteen = draw.integers(0, 2**9, (2**12, 16), dtype=np.uint32)
    letters, ends = sixteen.astype(np.uint8).ravel(), np.arange(0, 2**16 + 1, 16)
    widths = (9,) * 16
    # So few that what they unpack to is no fresh memory, whose page faults both languages share.
    records = reference.pack_records(seeds[: 2**9], sixteen[: 2**9], 5, widths)
    values = draw.uniform(-1, 1, 2**16)
    hits = draw.integers(0, 2**12, (2**8, 2**9), dtype=np.uint32)
    ranked = reference.rank_slots(hits, 2**12, signed=False, top=2**8)
    classes = np.stack([ranked[0], np.zeros(2**8, dtype=np.int64)])
    bins = LinearBins(16, 2**6, signed=False)
    tables = draw.integers(0, 3, (4, 2**16), dtype=np.int32)
    codes, flips = (ids % 2**16).astype(np.uint32), np.zeros(2**12, dtype=np.uint8)
    constants = images(combined([1, 7]), 10)
    return {
        "read_hits": ((sixteen[:, :2].copy(), sixteen[:16].reshape(16, 8, 2), 4), {}),
        "fold_characters": ((tables[:, : 2**12].copy(), constants, np.array([0, 1, 1, 1])), {}),
        "place_codes": ((*held[:2], codes, flips), {"groups": 64, "bins": bins}),
        "rank_slots": ((hits, 2**12), {"signed": False, "top": 2**8}),
        "pick_slots": ((hits, 2**12, False, classes, ranked[2] // 2), {}),
        "spread_bins": ((tables, bins), {}),
        "round_values": ((values, 2**10, draw.integers(0, 2**32, 2**16, dtype=np.uint32)), {}),
        "bin_items": ((*held, amounts), {"bins": 16, "hashed": "prf"}),
        "bin_items linear": ((*held, amounts), {"bins": 16, "hashed": MAPS}),
        "code_items": ((*held, MAPS), {}),
        "pick_maps": ((seeds, 8), {}),
        "linear_cells": ((seeds, sixteen, 2**8, MAPS), {}),
        "sum_squares": ((sixteen, 2**8), {}),
        "hash_words blake2s": ((seeds, ids, 1, 1, "blake2s"), {}),
        "hash_keys": ((letters, ends, b"salt"), {}),
        "pack_records": ((seeds, sixteen, 5, widths), {}),
        "unpack_records": ((records, 5, widths, (2**9,) * 16), {}),
    }


CASES = {
    name: (getattr(compiled, name.split()[0]), getattr(reference, name.split()[0]), *case)
    for cases in (shared_cases, field_cases, client_cases)
    for name, case in cases(samples.generator()).items()
}


def test_no_kernel_is_forgotten():
    others = {"active", "compiled", "configuration_error", "instructions", "reference"}
    guarded = {name.split()[0] for name in CASES}
    assert set(kernels.__all__) - others == {"scatter_add", "walsh_hadamard", *guarded}


@pytest.mark.parametrize("name", CASES)
def test_each_compiled_kernel_beats_the_reference(name):
    fast, slow, arguments, options = CASES[name]
    least = SLOWER.get(name, FASTER)
    ratio = lowest_ratio(
        lambda: fast(*arguments, **options), lambda: slow(*arguments, **options), 1 / least
    )
    assert 1 / ratio >= least, f"{name}: {1 / ratio:.1f} times as fast as the reference"


def test_the_reference_does_not_beat_itself():
    """Mutant: a kernel that is the reference in disguise is below every limit."""
    _, slow, arguments, _ = CASES["hash_ids"]  # short, so that every try has some quiet rounds

    def work() -> object:
        return slow(*arguments)

    least = min(FASTER, *SLOWER.values())
    with one_core():
        tries = [compare(work, work, EFFORT) for _ in range(TRIES)]
    # The quickest of all tries on either side: the best of their ratios would be one by chance.
    ours, theirs = (min(each.best for each in side) for side in zip(*tries, strict=True))
    assert theirs / ours < least
