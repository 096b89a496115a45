/* Projection choice: signs of groups, and one slot of them per report. */

#include "kernels.h"

#define SLOT_BLOCK 1024 /* reports kept in the L1 cache while looping over ids */

HOT API void faintly_read_slots(const uint64_t *seeds, const uint32_t *word,
                                const uint32_t *mask, const uint32_t *where,
                                const uint32_t *minus, int64_t reports, int64_t bins,
                                const uint64_t *ids, int64_t count, int64_t *totals,
                                int64_t *hits)
{
    for (int64_t start = 0; start < reports; start += SLOT_BLOCK) {
        const int64_t end = least(reports, start + SLOT_BLOCK);
        for (int64_t c = 0; c < count; c++) {
            const uint64_t id = ids[c];
            uint32_t hit = 0, odd = 0;
            for (int64_t i = start; i < end; i++) {
                const uint32_t hash =
                    half_sip(seeds[i], id, CLOSING_WORD(TAG_PROJECTION, word[i]));
                const uint32_t same = scale_to(hash, (uint32_t)bins) == where[i];
                hit += same;
                odd += same & (((hash & mask[i]) != 0) ^ minus[i]);
            }
            hits[c] += hit;
            totals[c] += (int64_t)hit - 2 * (int64_t)odd;
        }
    }
}

#define MAX_GROUPS 8192

/* Adds 1 to counter b of a column for every word that has bit b. */
INLINE void count_bits(const uint32_t *words, int64_t count, uint32_t *column)
{
    for (int64_t i = 0; i < count; i++)
        for (uint32_t b = 0; b < 32; b++) /* a test against a mask, not a shift: it vectorises */
            column[b] += (words[i] & 1u << b) != 0;
}

#define TOKEN_BLOCK 128 /* items hashed together */

HOT API void faintly_project_prf(const uint64_t *seeds, const int64_t *offsets, int64_t segments,
                                 const uint64_t *ids, const uint8_t *negative, int64_t groups,
                                 int64_t *sums)
{
    uint32_t hashed[TOKEN_BLOCK], ones[MAX_GROUPS];
    const int64_t words = (groups + 31) / 32;
    for (int64_t s = 0; s < segments; s++) {
        const int64_t stop = offsets[s + 1], count = stop - offsets[s];
        memset(ones, 0, (size_t)(32 * words) * sizeof *ones);
        for (int64_t t = offsets[s]; t < stop; t += TOKEN_BLOCK) {
            const int64_t many = least(stop - t, TOKEN_BLOCK);
            for (int64_t w = 0; w < words; w++) {
                for (int64_t i = 0; i < many; i++)
                    hashed[i] = half_sip(seeds[s], ids[t + i], CLOSING_WORD(TAG_PROJECTION, w)) ^
                                (0u - negative[t + i]);
                count_bits(hashed, many, ones + 32 * w);
            }
        }
        for (int64_t g = 0; g < groups; g++)
            sums[s * groups + g] = count - 2 * (int64_t)ones[g];
    }
}

HOT API void faintly_project_linear(const uint64_t *seeds, const int64_t *offsets,
                                    int64_t segments, const uint32_t *codes,
                                    const uint8_t *negative, int64_t groups, int64_t bits,
                                    int64_t *sums)
{
    uint32_t rows[MAX_GROUPS], ones[MAX_GROUPS];
    const uint32_t low = (uint32_t)(((uint64_t)1 << bits) - 1);
    for (int64_t s = 0; s < segments; s++) {
        const int64_t count = offsets[s + 1] - offsets[s];
        for (int64_t g = 0; g < groups && count; g++)
            rows[g] = half_sip(seeds[s], (uint64_t)g, CLOSING(TAG_GROUP)) & low;
        memset(ones, 0, (size_t)groups * sizeof *ones);
        for (int64_t t = offsets[s]; t < offsets[s + 1]; t++) {
            const uint32_t code = codes[t], flip = negative[t];
            for (int64_t g = 0; g < groups; g++) {
                ones[g] += parity_lane(rows[g] & code) ^ flip;
            }
        }
        for (int64_t g = 0; g < groups; g++)
            sums[s * groups + g] = count - 2 * (int64_t)ones[g];
    }
}
