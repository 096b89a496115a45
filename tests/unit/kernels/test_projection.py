"""The kernels of projection choice: both agree to the last integer, and refuse alike."""

import numpy as np
import pytest

from tests.unit.kernels.helpers import BOTH, independent_word, wide, words


@BOTH
@pytest.mark.parametrize("reports", [0, 1, 50])
@pytest.mark.parametrize("bins", [1, 3, 2**32 - 1])
def test_read_slots(kernels, reports, bins):
    seeds, ids = wide("seeds", reports), wide("ids", 4)
    where = words("where", reports) % np.uint32(bins)
    slots = np.stack(
        [
            words("word", reports) % np.uint32(256),
            np.uint32(1) << words("bit", reports) % np.uint32(32),
            where,
            words("minus", reports) % np.uint32(2),
        ]
    )
    if reports:  # one certain hit where hits are rare
        hashed = independent_word(int(seeds[0]), int(ids[0]), "p", int(slots[0, 0]))
        slots[2, 0] = hashed * bins >> 32
    wanted = []
    for item in ids.tolist():
        total = hits = 0
        for seed, (word, mask, at, minus) in zip(seeds.tolist(), slots.T.tolist(), strict=True):
            hashed = independent_word(seed, item, "p", word)
            if hashed * bins >> 32 == at:
                hits += 1
                total += 1 - 2 * (bool(hashed & mask) ^ minus)
        wanted.append((total, hits))
    totals, hits = kernels.read_slots(seeds, slots, ids, bins)
    assert list(zip(totals.tolist(), hits.tolist(), strict=True)) == wanted


@BOTH
def test_kernels_check_before_they_touch_memory(kernels):
    seeds, ids, codes = np.zeros(2, np.uint64), np.zeros(3, np.uint64), np.zeros(3, np.uint32)
    none = np.zeros(3, bool)
    offsets = np.array([0, 1, 3])
    for wrong in ([0, 1], [0, 1, 4], [1, 1, 3], [0, 4, 3]):
        with pytest.raises(TypeError, match=r"offsets must|pair up: seeds"):
            kernels.project_prf(seeds, np.array(wrong), ids, none, 8)
    with pytest.raises(TypeError, match="pair up"):
        kernels.project_prf(seeds, offsets, ids[:2], none, 8)
    for groups in (0, 8193):
        with pytest.raises(TypeError, match="groups must"):
            kernels.project_prf(seeds, offsets, ids, none, groups)
    for bits in (0, 33):
        with pytest.raises(TypeError, match="bits must"):
            kernels.project_linear(seeds, offsets, codes, none, groups=8, bits=bits)
    with pytest.raises(TypeError, match="slots must have the rows"):
        kernels.read_slots(seeds, np.zeros((3, 2), np.uint32), ids, 1)
    with pytest.raises(TypeError, match="word one byte"):
        kernels.read_slots(seeds, np.full((4, 2), 256, np.uint32), ids, 1)
    with pytest.raises(TypeError, match="bins must fit"):
        kernels.read_slots(seeds, np.zeros((4, 2), np.uint32), ids, 0)
