/* Only for `make bench`: a bare random read-modify-write, and the paper's estimator as a plain
 * loop. */

#include "kernels.h"

API void faintly_bare_add_32(int32_t *table, const uint32_t *index, const int32_t *weight,
                             int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        table[index[i]] += weight[i];
}

API void faintly_bare_add_64(int64_t *table, const uint32_t *index, const int32_t *weight,
                             int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        table[index[i]] += weight[i];
}

API void faintly_paper_loop(const uint64_t *seeds, const int64_t *values, int64_t bins,
                            int64_t reports, const uint64_t *ids, int64_t count,
                            int64_t *totals)
{
    for (int64_t c = 0; c < count; c++) {
        int64_t total = 0;
        for (int64_t i = 0; i < reports; i++) {
            const uint32_t bin = scale_to(half_sip(seeds[i], ids[c], CLOSING(TAG_BIN)),
                                          (uint32_t)bins);
            const uint32_t sign = half_sip(seeds[i], ids[c], CLOSING(TAG_SIGN));
            const int64_t value = values[i * bins + bin], minus = -(int64_t)(sign & 1);
            total += (value ^ minus) - minus; /* a branch would be mispredicted half the time */
        }
        totals[c] = total;
    }
}
