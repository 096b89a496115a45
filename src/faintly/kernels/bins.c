/* Bins of projection choice: places of codes, the best slots, and tables of bins. */

#include "kernels.h"

#define MAX_GROUPS 256

/* One shift of all rows at a time, so that the inner loop vectorises. */
HOT API void faintly_place_codes(const uint64_t *seeds, const int64_t *offsets, int64_t segments,
                                 const uint32_t *codes, const uint8_t *flips, int64_t groups,
                                 int64_t row_bits, int64_t width, int64_t signs,
                                 int64_t polynomial, uint32_t *places)
{
    uint32_t rows[MAX_GROUPS];
    const uint32_t low = (uint32_t)(((uint64_t)1 << row_bits) - 1);
    for (int64_t s = 0; s < segments; s++) {
        const int64_t start = offsets[s], stop = offsets[s + 1];
        for (int64_t g = 0; g < groups && stop > start; g++)
            rows[g] = half_sip(seeds[s], (uint64_t)g, CLOSING(TAG_GROUP)) & low;
        for (int64_t t = start; t < stop; t++)
            for (int64_t g = 0; g < groups; g++)
                places[t * groups + g] = codes[t] >> row_bits;
        for (int64_t i = 0; i < width + signs && stop > start; i++) {
            for (int64_t t = start; t < stop; t++) {
                uint32_t *own = places + t * groups;
                const uint32_t code = codes[t] & low, flip = flips[t];
                if (i < width)
                    for (int64_t g = 0; g < groups; g++)
                        own[g] ^= parity_lane(rows[g] & code) << i;
                else
                    for (int64_t g = 0; g < groups; g++)
                        own[g] = own[g] << 1 | (parity_lane(rows[g] & code) ^ flip);
            }
            for (int64_t g = 0; g < groups; g++) {
                const uint32_t over = 0u - (rows[g] >> (row_bits - 1));
                rows[g] = (rows[g] << 1 ^ (over & (uint32_t)polynomial)) & low;
            }
        }
    }
}

INLINE int64_t level_of(int32_t sum) { return sum < 0 ? -(int64_t)sum : sum; }

/* `levels` counts bins by |score| as tokens are added; both arrays are cleared afterwards. */
API void faintly_rank_slots(const uint32_t *hits, int64_t clients, int64_t tokens, int64_t bins,
                            int64_t signs, int64_t top, int32_t *sums, int64_t *levels,
                            int64_t *border, int64_t *above, int64_t *tied)
{
    for (int64_t c = 0; c < clients; c++) {
        const uint32_t *own = hits + c * tokens;
        int64_t highest = 0, count = 0;
        levels[0] = bins;
        for (int64_t t = 0; t < tokens; t++) {
            int32_t *sum = sums + (own[t] >> signs);
            levels[level_of(*sum)]--;
            *sum += own[t] & (uint32_t)signs ? -1 : 1;
            const int64_t level = level_of(*sum);
            levels[level]++;
            highest = level > highest ? level : highest;
        }
        while (count + levels[highest] < top)
            count += levels[highest--];
        border[c] = highest;
        above[c] = count;
        tied[c] = levels[highest] << (signs && !highest); /* both slots of a bin may score 0 */
        for (int64_t t = 0; t < tokens; t++) {
            levels[level_of(sums[own[t] >> signs])] = 0;
            sums[own[t] >> signs] = 0;
        }
    }
}

#define SCAN 256 /* bins counted at a time */

INLINE int64_t alike(int32_t score, int32_t border, int32_t kind)
{
    return (score > border) - (score < border) == kind;
}

/* The slot of a member of a class, or -1. */
INLINE int64_t find_slot(const int32_t *sums, int64_t bins, int64_t signs, int32_t border,
                         int32_t kind, int64_t member)
{
    for (int64_t start = 0; start < bins; start += SCAN) {
        const int64_t end = least(bins, start + SCAN);
        int32_t count = 0;
        for (int64_t b = start; b < end; b++)
            count += (int32_t)alike(sums[b], border, kind);
        for (int64_t b = start; signs && b < end; b++)
            count += (int32_t)alike(-sums[b], border, kind);
        if (member >= count) {
            member -= count;
            continue;
        }
        for (int64_t slot = start << signs;; slot++) {
            const int32_t sum = sums[slot >> signs];
            member -= alike(slot & signs ? -sum : sum, border, kind);
            if (member < 0)
                return slot;
        }
    }
    return -1;
}

HOT API void faintly_pick_slots(const uint32_t *hits, int64_t clients, int64_t tokens,
                                int64_t bins, int64_t signs, const int64_t *border,
                                const int64_t *kind, const int64_t *member, int32_t *sums,
                                int64_t *picked)
{
    for (int64_t c = 0; c < clients; c++) {
        const uint32_t *own = hits + c * tokens;
        for (int64_t t = 0; t < tokens; t++)
            sums[own[t] >> signs] += own[t] & (uint32_t)signs ? -1 : 1;
        picked[c] = find_slot(sums, bins, signs, (int32_t)border[c], (int32_t)kind[c], member[c]);
        for (int64_t t = 0; t < tokens; t++)
            sums[own[t] >> signs] = 0;
    }
}

#define CHARACTERS 16 /* entries of a line: read together, written to as many places */

/* From entry a·width + u to entry u·2^row_bits + u(X)·a. The products of a + 1 and of a differ by
 * that of a ^ (a + 1), which is one less than a power of two: `steps` has these, by the power. */
#define DEFINE_SPREAD(bits)                                                                  \
    API void faintly_spread_bins_##bits(const int##bits##_t *tables, int64_t maps,           \
                                        int64_t row_bits, int64_t width, int64_t signs,      \
                                        const uint32_t *steps, int##bits##_t *out)           \
    {                                                                                        \
        const int64_t rows = (int64_t)1 << row_bits;                                         \
        for (int64_t j = 0; j < maps; j++, tables += rows * width, out += rows * width) {    \
            for (int64_t first = 0; first < width; first += CHARACTERS) {                    \
                const int64_t many = least(width - first, CHARACTERS);                       \
                uint32_t place[CHARACTERS];                                                  \
                for (int64_t u = 0; u < many; u++)                                           \
                    place[u] = (uint32_t)(first + u) << row_bits;                            \
                for (int64_t a = 0; a < rows; a++) {                                         \
                    const int##bits##_t *line = tables + a * width + first;                  \
                    const uint32_t *step =                                                   \
                        steps + __builtin_ctzll((uint64_t)a + 1) * width + first;            \
                    for (int64_t u = 0; u < many; u++) {                                     \
                        out[place[u]] = line[u];                                             \
                        place[u] ^= step[u];                                                 \
                    }                                                                        \
                }                                                                            \
            }                                                                                \
            if (!signs) /* the products of 0 are all 0 */                                    \
                memset(out, 0, (size_t)rows * sizeof *out);                                  \
        }                                                                                    \
    }

DEFINE_SPREAD(32)
DEFINE_SPREAD(64)
