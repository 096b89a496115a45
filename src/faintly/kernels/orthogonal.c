/* Cells that are orthogonal to the rows of keys: counted by planes of bits, or from tables. */

#include "kernels.h"

#define WIDE 512 /* cells of a block: a plane has one bit of each */
#define NIBBLES 8 /* of a word */
#define MAX_WORDS 256

typedef uint64_t plane __attribute__((vector_size(WIDE / 8), aligned(8)));

/* Bit i of word j becomes bit j of word i: halves, quarters, … swap places. */
INLINE void transpose(uint32_t words[32])
{
    uint32_t mask = 0x0000ffffu;
    for (int half = 16; half; half >>= 1, mask ^= mask << half)
        for (int i = 0; i < 32; i = (i + half + 1) & ~half) {
            const uint32_t moved = (words[i] >> half ^ words[i + half]) & mask;
            words[i] ^= moved << half;
            words[i + half] ^= moved;
        }
}

/* For each nibble that is not 0 in all cells, makes the sixteen sums of its four planes. Writes
 * which nibbles these are, and in `there` which cells are not 0. Returns the number of nibbles. */
INLINE int64_t sum_planes(const uint32_t *cells, int64_t size, int64_t words, plane *sums,
                          int64_t *used, plane *there)
{
    int64_t count = 0;
    *there = (plane){0};
    for (int64_t w = 0; w < words; w++) {
        union { /* of one word of the cells */
            uint32_t part[32][WIDE / 32];
            plane whole[32];
        } planes;
        for (int64_t start = 0; start < WIDE; start += 32) {
            uint32_t some[32] = {0};
            for (int64_t i = start; i < least(size, start + 32); i++)
                some[i - start] = cells[i * words + w];
            transpose(some);
            for (int b = 0; b < 32; b++)
                planes.part[b][start / 32] = some[b];
        }
        for (int64_t n = 0; n < NIBBLES; n++) {
            const plane *four = planes.whole + 4 * n;
            const plane seen = four[0] | four[1] | four[2] | four[3];
            uint64_t bits = 0;
            for (int i = 0; i < WIDE / 64; i++)
                bits |= seen[i];
            if (!bits)
                continue;
            *there |= seen;
            plane *sum = sums + 16 * count;
            sum[0] = (plane){0};
            for (int value = 1; value < 16; value++)
                sum[value] = sum[value & (value - 1)] ^ four[__builtin_ctz((unsigned)value)];
            used[count++] = NIBBLES * w + n;
        }
    }
    return count;
}

INLINE int64_t ones(const plane *bits)
{
    int64_t count = 0;
    UNROLL for (int i = 0; i < WIDE / 64; i++)
        count += (int64_t)ONES((*bits)[i]);
    return count;
}

/* scratch: 16 planes for each nibble, and a line for alignment. */
HOT API void faintly_read_hits(const uint32_t *cells, int64_t reports, int64_t words,
                               const uint32_t *rows, int64_t keys, int64_t count, int64_t first,
                               uint64_t *scratch, int64_t *some, int64_t *every)
{
    int64_t used[NIBBLES * MAX_WORDS];
    plane there;
    plane *sums = (plane *)(((uintptr_t)scratch + LINE - 1) & ~(uintptr_t)(LINE - 1));
    for (int64_t start = 0; start < reports; start += WIDE) {
        const int64_t size = least(reports - start, WIDE);
        const int64_t nibbles =
            sum_planes(cells + start * words, size, words, sums, used, &there);
        for (int64_t k = 0; k < keys; k++) {
            plane left = there;
            for (int64_t r = 0; r < count; r++) {
                const uint32_t *row = rows + (k * count + r) * words;
                plane odd = {0};
                for (int64_t n = 0; n < nibbles; n++) {
                    const int64_t place = used[n];
                    odd ^= sums[16 * n + (row[place / NIBBLES] >> 4 * (place % NIBBLES) & 15)];
                }
                left &= ~odd;
                if (r + 1 == first)
                    some[k] += ones(&left);
            }
            every[k] += ones(&left);
        }
    }
}

/* As in spread_bins, the products of π + 1 and of π differ by that of one less than a power of two:
 * `steps` has these for every sum u of rows, by the power. */
#define DEFINE_FOLD(bits)                                                                    \
    API void faintly_fold_characters_##bits(const int##bits##_t *tables, int64_t count,      \
                                            int64_t field_bits, int64_t sums,                \
                                            const uint32_t *steps, const int64_t *weights,   \
                                            int##bits##_t *out)                              \
    {                                                                                        \
        const int64_t size = (int64_t)1 << field_bits;                                       \
        for (int64_t t = 0; t < count; t++, tables += sums << field_bits, out += size)       \
            for (int64_t u = 0; u < sums; u++) {                                             \
                const int##bits##_t weight = (int##bits##_t)weights[u];                      \
                const int##bits##_t *own = tables + (u << field_bits);                       \
                const uint32_t *step = steps + u * (field_bits + 1);                         \
                uint32_t place = 0;                                                          \
                for (int64_t e = 0; weight && e < size; e++) {                               \
                    out[e] += weight * own[place];                                           \
                    place ^= step[__builtin_ctzll((uint64_t)e + 1)];                         \
                }                                                                            \
            }                                                                                \
    }

DEFINE_FOLD(32)
DEFINE_FOLD(64)
