/* Only for `make bench`: a bare random read-modify-write, and plain loops of the paper's estimator
 * and of counting orthogonal cells. */

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

API void faintly_hit_loop(const uint32_t *cells, int64_t reports, int64_t words,
                          const uint32_t *rows, int64_t keys, int64_t count, int64_t *hits)
{
    for (int64_t k = 0; k < keys; k++) {
        int64_t total = 0;
        for (int64_t i = 0; i < reports; i++) {
            uint32_t any = 0, odd = 0;
            for (int64_t w = 0; w < words; w++)
                any |= cells[i * words + w];
            for (int64_t r = 0; r < count; r++) {
                uint32_t folded = 0;
                for (int64_t w = 0; w < words; w++)
                    folded ^= cells[i * words + w] & rows[(k * count + r) * words + w];
                odd |= parity32(folded);
            }
            total += any && !odd;
        }
        hits[k] = total;
    }
}
