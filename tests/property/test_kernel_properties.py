"""Laws of the kernels: C and numpy give the same integers, however many threads share the work."""

import os
import signal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faintly.core import Hashing
from faintly.errors import InvalidInput
from faintly.kernels import compiled, reference, threads
from faintly.primitives.hashing import LinearMaps

pytestmark = pytest.mark.skipif(not compiled.available(), reason="not compiled")

# Odd sizes, and sizes just off the blocks of 16, 256, 512 and 1024 that the C files work in.
SIZES = st.one_of(
    st.integers(0, 70),
    st.sampled_from([127, 255, 256, 257, 511, 513, 1023, 1024, 1025, 1057, 2049, 3001]),
)
FEW = st.integers(0, 9)
# Items of each client: some have none, some are just off the blocks of 16, 64 and 256.
HELD = st.lists(
    st.one_of(
        st.just(0), st.integers(0, 70), st.sampled_from([15, 16, 17, 63, 64, 65, 255, 256, 257])
    ),
    max_size=12,
)
FAMILIES = st.sampled_from(["prf", "blake2s"])
MAPS = st.sampled_from(
    [
        LinearMaps(Hashing(family="linear", bits=bits, maps=maps), bytes(16), size)
        for bits, maps, size in ((20, 1, 2**20), (9, 8, 500), (16, 4, None), (31, 2, 2**31))
    ]
)
SEEDS = st.integers(0, 2**32 - 1)
THREADS = (1, 2, 3, 5)


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch):
    """Let threads share even small inputs."""
    for name in ("ENTRIES", "KEYS", "PAIRS", "SLICED_PAIRS"):
        monkeypatch.setattr(threads, name, 1)
    monkeypatch.setattr(threads, "LONG", 2**12)


@pytest.fixture(scope="module", autouse=True)
def _restored():
    before = os.environ.get("FAINTLY_THREADS")
    yield
    os.environ.pop("FAINTLY_THREADS", None)
    if before is not None:
        os.environ["FAINTLY_THREADS"] = before


def same(name, *case, **options):
    """Assert that the compiled kernel equals the reference under every number of threads."""
    wanted = getattr(reference, name)(*case, **options)
    for count in THREADS:
        os.environ["FAINTLY_THREADS"] = str(count)
        alike(getattr(compiled, name)(*case, **options), wanted)


def same_for_clients(name, *case, **options):
    """Assert that the compiled kernel of clients, which no threads share, equals the reference."""
    ours, theirs = (getattr(k, name) for k in (compiled, reference))
    alike(ours(*case, **options), theirs(*case, **options))


def alike(found, wanted):
    """Assert that two answers hold the same integers of the same types."""
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            alike(one, other)
    else:
        assert getattr(found, "dtype", type(found)) == getattr(wanted, "dtype", type(wanted))
        np.testing.assert_array_equal(found, wanted)


def words(rng, *shape, below=2**32):
    return rng.integers(0, below, shape, dtype=np.uint32)


def wide(rng, *shape):
    return rng.integers(0, 2**64, shape, dtype=np.uint64)


def seeds_and_ids(rng, count):
    """Return pairs of which many in a row share their seed."""
    seeds = wide(rng, count)
    seeds[rng.random(count) < 0.6] = seeds[:1]
    return seeds, wide(rng, count)


def offsets_of(held):
    return np.concatenate([[0], np.cumsum(held)]).astype(np.int64)


def clients(rng, held):
    offsets = offsets_of(held)
    amounts = words(rng, offsets[-1]).view(np.int32)  # all of 32 bits
    return wide(rng, len(held)), offsets, wide(rng, offsets[-1]), amounts


@given(SEEDS, st.integers(0, 5), st.integers(0, 13), st.sampled_from([np.int32, np.int64]))
@example(1, 1, 13, np.int32)
@example(1, 2, 12, np.int64)
@example(1, 5, 3, np.int32)
def test_transforms_agree_and_undo_themselves(seed, count, bits, dtype):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-(2**12), 2**12, (count, 2**bits)).astype(dtype)
    wanted = rows.copy()
    reference.walsh_hadamard(wanted)
    for number in THREADS:
        os.environ["FAINTLY_THREADS"] = str(number)
        found = rows.copy()
        compiled.walsh_hadamard(found)
        np.testing.assert_array_equal(found, wanted)
    twice = wanted.astype(np.int64)
    compiled.walsh_hadamard(twice)
    np.testing.assert_array_equal(twice, rows.astype(np.int64) << bits)


@given(SEEDS, st.integers(1, 3), st.integers(9, 16), st.sampled_from([np.int32, np.int64]))
def test_transforms_of_light_and_heavy_blocks_agree(seed, count, bits, dtype):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-7, 8, (count, 2**bits)).astype(dtype)
    spikes = rng.integers(0, rows.size, 3)
    rows.flat[spikes] = rng.integers(-(2**17), 2**17, 3) << (np.dtype(dtype).itemsize // 8 * 16)
    wanted = rows.copy()
    reference.walsh_hadamard(wanted)
    for number in THREADS:
        os.environ["FAINTLY_THREADS"] = str(number)
        found = rows.copy()
        compiled.walsh_hadamard(found)
        np.testing.assert_array_equal(found, wanted)


@given(SEEDS, st.integers(0, 3), st.integers(0, 6), st.sampled_from([np.int32, np.int64]))
def test_transforms_refuse_the_same_rows(seed, count, bits, dtype):
    rng = np.random.default_rng(seed)
    limit = 2 ** (np.dtype(dtype).itemsize * 8 - 1)
    rows = rng.integers(-limit, limit, (count, 2**bits), dtype=dtype) >> dtype(bits)
    seen = []
    for kernels in (reference, compiled):
        own = rows.copy()
        try:
            kernels.walsh_hadamard(own)
        except OverflowError:
            np.testing.assert_array_equal(own, rows)
            own = None
        seen.append(own)
    np.testing.assert_array_equal(seen[0], seen[1])


@given(
    SEEDS,
    SIZES,
    st.one_of(st.integers(0, 16), st.sampled_from([20, 21])),  # above 4 MiB cells are fetched ahead
    st.sampled_from([np.int32, np.int64]),
)
@example(1, 1025, 21, np.int32)
@example(1, 25, 20, np.int64)
def test_scatters_agree(seed, count, bits, dtype):
    rng = np.random.default_rng(seed)
    index, weight = words(rng, count, below=2**bits), rng.integers(-999, 999, count, np.int32)
    found = np.zeros((1, 2**bits), dtype=dtype)
    wanted = found.copy()
    mass = reference.scatter_add(wanted, index, weight, 1)
    assert compiled.scatter_add(found, index, weight, 1) == mass
    np.testing.assert_array_equal(found, wanted)


@given(
    SEEDS, SIZES, st.integers(0, 9), st.integers(1, 5), st.booleans(), st.sampled_from([1, 2, 4])
)
def test_gathered_entries_agree(seed, count, bits, blocks, folded, maps):
    rng = np.random.default_rng(seed)
    codes = Hashing(family="linear", maps=maps, bits=bits + blocks.bit_length())
    public = LinearMaps(codes, bytes(16), None if folded else 2**codes.bits)
    for dtype in (np.int32, np.int64):
        shape, most = (maps * blocks, 2**bits), np.iinfo(dtype).max
        tables = rng.integers(-most, most, shape, dtype=dtype)
        same("gather", tables, wide(rng, count) >> np.uint64(40), public, blocks)


@given(SEEDS, SIZES, st.integers(1, 32), st.integers(0, 5))
def test_codes_agree(seed, count, bits, rounds):
    rng = np.random.default_rng(seed)
    same("map_codes", wide(rng, count), words(rng, rounds), words(rng, rounds), bits)


@given(SEEDS, SIZES, st.integers(0, 2**64 - 1), st.integers(0, 255))
def test_hashes_agree(seed, count, key, tag):
    same("hash_ids", key, wide(np.random.default_rng(seed), count), tag)


@given(SEEDS, SIZES, FEW, st.integers(0, 32), st.integers(0, 32))
@example(1, 1025, 9, 32, 32)
@example(1, 1025, 9, 20, 0)
@example(1, 2049, 40, 21, 1)
def test_readings_of_cells_agree(seed, cells, keys, index_bits, weight_bits):
    rng = np.random.default_rng(seed)
    index = rng.integers(0, 2**index_bits, cells).astype(np.uint32)
    weight = rng.integers(-(2**weight_bits) // 2, 2**weight_bits // 2 + 1, cells).clip(
        -(2**31), 2**31 - 1
    )
    same("read_cells", index, weight.astype(np.int32), words(rng, keys))


@given(SEEDS, SIZES, st.integers(1, 40), FEW)
def test_readings_of_hashed_reports_agree(seed, reports, bins, keys):
    rng = np.random.default_rng(seed)
    values = rng.integers(-(2**63), 2**63 - 1, (reports, bins))  # sums wrap alike
    same("read_hashed", wide(rng, reports), values, wide(rng, keys))


@given(SEEDS, st.integers(0, 40), st.integers(1, 5), st.integers(0, 3))
def test_readings_under_blake2s_agree(seed, reports, bins, keys):
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 9, (reports, bins))
    same("read_hashed", wide(rng, reports), values, wide(rng, keys), "blake2s")


@given(SEEDS, SIZES, st.integers(1, 5), st.integers(0, 20))
@example(1, 513, 4, 20)
def test_readings_of_payloads_agree(seed, reports, size, keys):
    rng = np.random.default_rng(seed)
    same("read_parity", wide(rng, reports), words(rng, reports, size), wide(rng, keys))


@given(SEEDS, SIZES, st.sampled_from([1, 2, 5, 134, 2**32 - 1]), st.integers(0, 20))
@example(1, 3001, 3, 20)
def test_readings_of_slots_agree(seed, reports, bins, keys):
    rng = np.random.default_rng(seed)
    rows = [words(rng, reports, below=b) for b in (256, 2**32, min(bins, 5), 2)]
    same("read_slots", wide(rng, reports), np.stack(rows), wide(rng, keys), bins)


@given(SEEDS, st.integers(0, 3), SIZES, st.sampled_from([np.int32, np.int64]))
@example(1, 3, 4097, np.int64)
def test_masses_agree(seed, count, columns, dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    tables = np.random.default_rng(seed).integers(
        least, most, (count, columns), dtype=dtype, endpoint=True
    )
    tables[:, ::97] = least
    same("total_mass", tables)


@given(SEEDS, SIZES, st.integers(0, 255), st.integers(0, 40))
@example(1, 17, 7, 256)
def test_words_agree(seed, count, tag, each):
    same("hash_words", *seeds_and_ids(np.random.default_rng(seed), count), tag, each)


@given(SEEDS, st.integers(0, 70), st.integers(0, 20))
@example(1, 3, 2048)
def test_wide_words_agree(seed, count, each):
    same("hash_wide", *seeds_and_ids(np.random.default_rng(seed), count), each)


@given(SEEDS, HELD, st.integers(0, 5), st.integers(1, 32), st.integers(0, 32))
@example(1, [70, 0, 257], 2, 32, 32)
@example(1, [70, 0, 257], 2, 3, 0)
def test_solutions_over_bits_agree(seed, held, size, row_bits, order_bits):
    rng, offsets = np.random.default_rng(seed), offsets_of(held)
    items = offsets[-1]
    rows = words(rng, items, size, below=2**row_bits)  # of few bits: many dependent rows
    rows[::5] = 0
    order = words(rng, items, below=2**order_bits)  # of few bits: many ties
    answers = words(rng, items, below=2).astype(np.uint8)
    same("solve_gf2", offsets, order, rows, answers, words(rng, len(held), size))


@given(SEEDS, HELD, st.integers(1, 300), st.integers(1, 32))
@example(1, [70, 0, 17], 256, 20)
@example(1, [1, 0, 70], 8192, 32)
def test_projections_agree(seed, held, groups, bits):
    rng, offsets = np.random.default_rng(seed), offsets_of(held)
    items = offsets[-1]
    seeds, ids, codes = wide(rng, len(held)), wide(rng, items), words(rng, items)
    negative = words(rng, items, below=2).astype(np.uint8)
    same("project_prf", seeds, offsets, ids, negative, groups)
    same("project_linear", seeds, offsets, codes, negative, groups=groups, bits=bits)


@given(SEEDS, SIZES, st.integers(0, 40), st.integers(0, 32), st.integers(0, 31))
@example(1, 32768, 3, 32, 0)
@example(1, 32769, 3, 32, 0)  # from here on taken apart by the first bits of their keys,
@example(1, 40000, 33, 32, 0)  # and wide rows otherwise than narrow ones
@example(1, 40000, 3, 9, 20)
@example(1, 40000, 33, 9, 0)
def test_shuffles_agree(seed, count, width, key_bits, shift):
    rng = np.random.default_rng(seed)
    keys = words(rng, count, below=2**key_bits) << np.uint32(shift)  # of few bits: many ties
    same("shuffle_rows", rng.integers(0, 256, (count, width), dtype=np.uint8), keys)


@given(SEEDS, HELD, st.integers(1, 100), FAMILIES)
def test_bins_of_clients_agree(seed, held, bins, family):
    case = clients(np.random.default_rng(seed), held)
    same_for_clients("bin_items", *case, bins=bins, hashed=family)


@given(SEEDS, HELD, st.integers(0, 7), MAPS)
def test_linear_bins_of_clients_agree(seed, held, width, maps):
    case = clients(np.random.default_rng(seed), held)
    same_for_clients("bin_items", *case, bins=2**width, hashed=maps)


@given(SEEDS, HELD, MAPS)
def test_codes_of_clients_agree(seed, held, maps):
    seeds, offsets, ids, _ = clients(np.random.default_rng(seed), held)
    same_for_clients("code_items", seeds, offsets, ids, maps)


@given(SEEDS, SIZES, st.integers(1, 2**31 - 1))
@example(1, 257, 1)
@example(1, 257, 2**31 - 1)
def test_picked_maps_agree(seed, count, maps):
    same_for_clients("pick_maps", wide(np.random.default_rng(seed), count), maps)


@given(SEEDS, SIZES, st.integers(0, 8), st.integers(0, 30), MAPS)
@example(1, 257, 8, 22, LinearMaps(Hashing(family="linear", bits=9, maps=8), bytes(16), 500))
def test_cells_of_reports_agree(seed, reports, width, bits, maps):
    rng, center = np.random.default_rng(seed), 2 ** min(bits, 30 - width)
    fields = words(rng, reports, 2**width, below=2 * center + 1)
    fields[:1] = 2 * center  # the largest weight that a cell can have
    same_for_clients("linear_cells", wide(rng, reports), fields, center, maps)


@given(SEEDS, SIZES, st.integers(0, 30))
def test_rounded_values_agree(seed, count, bits):
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, count)
    values[::7], values[3::7] = rng.integers(-1, 2, len(values[::7])), 2.0**-40
    # Words that agree with their value in 32 bits, or miss it by one, decide the borders.
    odds = np.floor((np.abs(values) * 2**bits) % 1 * 2.0**32)
    near = (odds + rng.integers(-1, 2, count)).clip(0, 2**32 - 1).astype(np.uint32)
    for drawn in (near, words(rng, count)):
        same_for_clients("round_values", values, 2**bits, drawn)


@given(SEEDS, st.integers(0, 70), st.integers(0, 255), st.integers(0, 20))
@example(1, 6, ord("y"), 8)
@example(1, 6, ord("y"), 9)
@example(1, 3, 7, 256)
def test_words_of_clients_under_blake2s_agree(seed, count, tag, each):
    case = seeds_and_ids(np.random.default_rng(seed), count)
    same_for_clients("hash_words", *case, tag, each, "blake2s")


@given(st.integers(0, 50), st.integers(1, 20), st.sampled_from(THREADS))
def test_slices_cover_a_range_once(count, least, number):
    os.environ["FAINTLY_THREADS"] = str(number)
    seen = []
    threads.parallel(lambda a, b: seen.append((a, b)), count, least)
    assert [x for a, b in sorted(seen) for x in range(a, b)] == list(range(count))
    assert len(seen) <= number
    assert len(seen) == 1 or min(b - a for a, b in seen) >= least


@pytest.mark.parametrize("bad", [0, 1])
def test_what_a_slice_raises_is_raised_when_all_are_done(monkeypatch, bad):
    monkeypatch.setenv("FAINTLY_THREADS", "2")
    done = []

    def work(start, stop):
        if start == bad:
            raise KeyError(start)
        done.append(start)

    with pytest.raises(KeyError):
        threads.parallel(work, 2, 1)
    assert done == [1 - bad]


@pytest.mark.parametrize("bad", ["0", "-1", "two", "1.5", "²"])
def test_a_number_of_threads_must_be_one(monkeypatch, bad):
    monkeypatch.setenv("FAINTLY_THREADS", bad)
    with pytest.raises(InvalidInput, match="FAINTLY_THREADS must be a positive integer"):
        threads.threads()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_makes_threads_of_its_own(monkeypatch):
    monkeypatch.setenv("FAINTLY_THREADS", "3")
    ids = wide(np.random.default_rng(1), 1000)
    wanted = compiled.hash_ids(1, ids, 2)  # the parent has its pool now
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that waits for threads it does not have is ended
        agrees = np.array_equal(compiled.hash_ids(1, ids, 2), wanted)
        os._exit(0 if agrees else 1)
    assert os.waitpid(child, 0)[1] == 0
