/* Reading solutions of linear systems and polynomials over small fields. */

#include "kernels.h"

/* columns: (words, reports), so that the loop over reports is contiguous. */
HOT API void faintly_read_parity(const uint64_t *seeds, const uint32_t *columns, int64_t words,
                                 int64_t reports, const uint64_t *ids, int64_t count,
                                 int64_t *totals)
{
    uint32_t folded[REPORT_BLOCK], v0[REPORT_BLOCK], v1[REPORT_BLOCK], v2[REPORT_BLOCK],
        v3[REPORT_BLOCK];
    for (int64_t start = 0; start < reports; start += REPORT_BLOCK) {
        const int64_t size = least(reports - start, REPORT_BLOCK);
        for (int64_t c = 0; c < count; c++) {
            const uint64_t id = ids[c];
            for (int64_t i = 0; i < size; i++) {
                const struct sip opened = sip_open(seeds[start + i], id);
                v0[i] = opened.v0, v1[i] = opened.v1, v2[i] = opened.v2, v3[i] = opened.v3;
                folded[i] = sip_close(opened, CLOSING_WORD(TAG_COIN, 0)) & 1;
            }
            for (int64_t w = 0; w < words; w++) {
                const uint32_t *column = columns + w * reports + start;
                const uint32_t closing = CLOSING_WORD(TAG_EQUATION, w);
                for (int64_t i = 0; i < size; i++) {
                    const struct sip opened = {v0[i], v1[i], v2[i], v3[i]};
                    folded[i] ^= sip_close(opened, closing) & column[i];
                }
            }
            uint32_t odd = 0;
            for (int64_t i = 0; i < size; i++)
                odd += parity_lane(folded[i]);
            totals[c] += size - 2 * (int64_t)odd;
        }
    }
}

#define FIELD_BLOCK 128 /* ids taken together: vectorised hashing, overlapping look-ups */

INLINE void half_sip_block(uint64_t key, const uint64_t *ids, int64_t count, uint32_t closing,
                           uint32_t *out)
{
    for (int64_t c = 0; c < count; c++)
        out[c] = half_sip(key, ids[c], closing);
}

/* Totals of signed readings come first, those of their squares `count` entries later. */
INLINE void count_block(int64_t *totals, int64_t count, int64_t size, const int64_t *readings,
                        const uint32_t *symbols, const uint32_t *signs)
{
    for (int64_t c = 0; c < size; c++) {
        const int64_t reading = readings[symbols[c]], minus = -(int64_t)(signs[c] & 1);
        totals[c] += (reading ^ minus) - minus; /* random signs: a branch would be mispredicted */
        totals[count + c] += reading * reading;
    }
}

enum { PRF, BLAKE2S, WIDE }; /* how rows are hashed: fields.py has the numbers */

struct hasher {
    int64_t family;
    uint64_t seed;
    uint32_t keyed[8];
    struct { /* of the prf family, after the ids */
        uint32_t v0[FIELD_BLOCK], v1[FIELD_BLOCK], v2[FIELD_BLOCK], v3[FIELD_BLOCK];
    } opened;
    uint32_t words[8][FIELD_BLOCK]; /* the wide family makes eight at a time */
};

/* Hashes what all words of the ids' rows share. */
INLINE void open_rows(struct hasher *hash, const uint64_t *ids, int64_t count)
{
    for (int64_t c = 0; hash->family == PRF && c < count; c++) {
        const struct sip opened = sip_open(hash->seed, ids[c]);
        hash->opened.v0[c] = opened.v0, hash->opened.v1[c] = opened.v1;
        hash->opened.v2[c] = opened.v2, hash->opened.v3[c] = opened.v3;
    }
}

INLINE void close_rows(struct hasher *hash, int64_t count, uint32_t closing)
{
    for (int64_t c = 0; c < count; c++)
        hash->words[0][c] = sip_close((struct sip){hash->opened.v0[c], hash->opened.v1[c],
                                                   hash->opened.v2[c], hash->opened.v3[c]},
                                      closing);
}

/* Word w of every id's row; in the wide family, words must be read in order. */
INLINE uint32_t *row_words(struct hasher *hash, const uint64_t *ids, int64_t count, int64_t w)
{
    if (hash->family == PRF)
        close_rows(hash, count, CLOSING_WORD(TAG_SYMBOL, w));
    for (int64_t c = 0; hash->family == BLAKE2S && c < count; c++)
        hash->words[0][c] = blake2s_first(hash->keyed, ids[c], CLOSING_WORD(TAG_SYMBOL, w));
    if (hash->family != WIDE)
        return hash->words[0];
    for (int64_t c = 0; w % 8 == 0 && c < count; c++) {
        uint32_t digest[8];
        blake2s(hash->keyed, ids[c], CLOSING_WORD(TAG_WIDE, w / 8), digest);
        for (int b = 0; b < 8; b++)
            hash->words[b][c] = digest[b];
    }
    return hash->words[w % 8];
}

/* The words whose lowest bits are signs: in the wide family the ones after the row's. */
INLINE const uint32_t *sign_words(struct hasher *hash, const uint64_t *ids, int64_t count,
                                  int64_t words)
{
    if (hash->family == WIDE)
        return row_words(hash, ids, count, words);
    if (hash->family == PRF)
        close_rows(hash, count, CLOSING(TAG_SIGN));
    for (int64_t c = 0; hash->family == BLAKE2S && c < count; c++)
        hash->words[0][c] = blake2s_first(hash->keyed, ids[c], CLOSING(TAG_SIGN));
    return hash->words[0];
}

/* Takes the top digit off every id's word, and adds its product with one symbol. */
INLINE void add_products(const uint32_t *products, uint32_t order, int64_t count, uint32_t *words,
                         uint32_t *sums)
{
    for (int64_t c = 0; c < count; c++) {
        const uint64_t scaled = (uint64_t)words[c] * order;
        words[c] = (uint32_t)scaled;
        sums[c] += products[scaled >> 32];
    }
}

/* The element whose coordinates modulo an odd prime are sums in 16-bit lanes. */
INLINE uint32_t fold_lanes(uint32_t sums, uint32_t prime)
{
    return (sums & 0xffff) % prime + (sums >> 16) % prime * prime;
}

/* Over GF(2^bits) each bit of an inner product is the parity of some bits of the hashed words:
 * masks[bits·w + b] has those of word w that make bit b. Digits lie from the top of a word in the
 * wide family, from the bottom in the others. */
INLINE void inner_masks(uint32_t *masks, const uint8_t *symbols, int64_t size, int64_t each,
                        const uint32_t *lanes, int64_t order, int bits, int wide)
{
    memset(masks, 0, (size_t)((size + each - 1) / each * bits) * sizeof *masks);
    for (int64_t j = 0; j < size; j++) {
        const int place = (int)(j % each) * bits;
        for (int u = 0; u < bits; u++) {
            const uint32_t product = lanes[symbols[j] * order + (1 << u)];
            for (int b = 0; b < bits; b++)
                masks[j / each * bits + b] |= (product >> b & 1)
                                              << ((wide ? 32 - place - bits : place) + u);
        }
    }
}

/* Bit b of sums[c] becomes the parity of odd[FIELD_BLOCK·b + c]. */
INLINE void fold_parities(const uint32_t *odd, int bits, int64_t count, uint32_t *sums)
{
    for (int b = 0; b < bits; b++)
        for (int64_t c = 0; c < count; c++)
            sums[c] |= parity32(odd[FIELD_BLOCK * b + c]) << b;
}

HOT API void faintly_read_inner(const uint64_t *seeds, const uint8_t *symbols, int64_t size,
                            int64_t reports, const uint64_t *ids, int64_t count,
                            const int64_t *readings, const uint32_t *lanes, int64_t order,
                            int64_t prime, int64_t each, int64_t family, uint32_t *scratch,
                            int64_t *totals)
{
    const int64_t words = (size + each - 1) / each;
    const int bits = prime == 2 ? __builtin_ctzll((uint64_t)order) : 0;
    struct hasher hash = {.family = family};
    uint32_t sums[FIELD_BLOCK], odd[MOST_FIELD_BITS * FIELD_BLOCK];
    for (int64_t i = 0; i < reports; i++) {
        const uint8_t *own = symbols + i * size;
        hash.seed = seeds[i];
        if (family != PRF)
            blake2s_keyed(hash.keyed, seeds[i], family == WIDE ? 32 : 8);
        if (bits)
            inner_masks(scratch, own, size, each, lanes, order, bits, family == WIDE);
        for (int64_t j = 0; !bits && j < size; j++)
            memcpy(scratch + j * order, lanes + own[j] * order, (size_t)order * sizeof *scratch);
        for (int64_t start = 0; start < count; start += FIELD_BLOCK) {
            const uint64_t *some = ids + start;
            const int64_t many = least(count - start, FIELD_BLOCK);
            memset(sums, 0, sizeof sums);
            memset(odd, 0, (size_t)bits * FIELD_BLOCK * sizeof *odd);
            open_rows(&hash, some, many);
            for (int64_t w = 0; w < words; w++) {
                uint32_t *hashed = row_words(&hash, some, many, w);
                for (int b = 0; b < bits; b++)
                    for (int64_t c = 0; c < many; c++)
                        odd[FIELD_BLOCK * b + c] ^= hashed[c] & scratch[w * bits + b];
                const int64_t stop = least((w + 1) * each, size);
                for (int64_t j = w * each; !bits && j < stop; j++)
                    add_products(scratch + j * order, (uint32_t)order, many, hashed, sums);
            }
            fold_parities(odd, bits, many, sums);
            for (int64_t c = 0; !bits && c < many; c++)
                sums[c] = fold_lanes(sums[c], (uint32_t)prime);
            count_block(totals + start, count, many, readings, sums,
                        sign_words(&hash, some, many, words));
        }
    }
}

/* Polynomials over GF(2^bits): powers[logs[a] + logs[b]] = a·b. The logarithm of 0 is
 * 2^(bits+1), and powers is 0 from there on. */

/* Replaces points by the values that the polynomial takes there. */
INLINE void evaluate_block(const uint32_t *coefficients, int64_t size, uint32_t *points,
                           int64_t count, const uint32_t *powers, const uint32_t *logs)
{
    uint32_t values[FIELD_BLOCK];
    for (int64_t c = 0; c < count; c++) {
        points[c] = logs[points[c]];
        values[c] = coefficients[size - 1];
    }
    for (int64_t j = size - 2; j >= 0; j--)
        for (int64_t c = 0; c < count; c++)
            values[c] = powers[points[c] + logs[values[c]]] ^ coefficients[j];
    memcpy(points, values, (size_t)count * sizeof *values);
}

#define POINT_BLOCK 32 /* points read together: a cache line of 16-bit values */
typedef uint16_t point_block __attribute__((vector_size(2 * POINT_BLOCK), may_alias));
_Static_assert(sizeof(point_block) == LINE, "a row is a cache line");

/* Row 16·(j·parts + p) + c of the table becomes c·x^(4p)·γ^j for every point γ of the block, so
 * that polynomials are evaluated by independent look-ups. */
INLINE void tabulate_points(const uint64_t *points, int64_t many, int64_t size, int64_t bits,
                            const uint32_t *powers, const uint32_t *logs,
                            uint16_t (*table)[POINT_BLOCK])
{
    uint32_t at[POINT_BLOCK];
    for (int64_t c = 0; c < many; c++)
        at[c] = 1;
    for (int64_t j = 0; j < size; j++) {
        for (int64_t u = 0; u < bits; u++) {
            uint16_t(*part)[POINT_BLOCK] = table, (*power)[POINT_BLOCK] = table + (1 << u % 4);
            memset(part, 0, sizeof *part);
            for (int64_t c = 0; c < many; c++)
                power[0][c] = (uint16_t)powers[logs[at[c]] + logs[1 << u]];
            for (int64_t c = many; c < POINT_BLOCK; c++)
                power[0][c] = 0;
            for (int64_t sum = 1; sum < 1 << u % 4; sum++)
                for (int64_t c = 0; c < POINT_BLOCK; c++)
                    power[sum][c] = power[0][c] ^ part[sum][c];
            if (u % 4 == 3 || u == bits - 1)
                table += 16;
        }
        for (int64_t c = 0; c < many; c++)
            at[c] = powers[logs[at[c]] + logs[points[c]]];
    }
}

/* As read_polynomial, for many reports where ids are points: all reports share their powers.
 * scratch: 16 rows for every four bits of each coefficient, and a line for alignment. */
HOT API void faintly_read_points(const uint32_t *fields, int64_t size, int64_t reports,
                                 const uint64_t *ids, int64_t count, const int64_t *readings,
                                 int64_t bits, const uint32_t *powers, const uint32_t *logs,
                                 uint16_t *scratch, int64_t *totals)
{
    const int64_t parts = (bits + 3) / 4;
    const uint32_t plus[POINT_BLOCK] = {0};
    uint16_t *table = scratch + (LINE - (uintptr_t)scratch % LINE) / sizeof *scratch;
    for (int64_t start = 0; start < count; start += POINT_BLOCK) {
        const int64_t many = least(count - start, POINT_BLOCK);
        tabulate_points(ids + start, many, size, bits, powers, logs,
                        (uint16_t(*)[POINT_BLOCK])table);
        for (int64_t i = 0; i < reports; i++) {
            const point_block *part = (const point_block *)table;
            point_block values = {0};
            uint32_t symbols[POINT_BLOCK];
            for (int64_t j = 0; j < size; j++)
                for (int64_t p = 0; p < parts; p++, part += 16)
                    values ^= part[fields[i * size + j] >> 4 * p & 15];
            for (int64_t c = 0; c < POINT_BLOCK; c++)
                symbols[c] = values[c];
            count_block(totals + start, count, many, readings, symbols, plus);
        }
    }
}

/* Changes each polynomial so that it takes given values: adds the polynomial of least degree that
 * does so, by Newton's divided differences. scratch: three rows of `size`. repeated: set to 1 if a
 * row has a point twice, and so no such polynomial. */
HOT API void faintly_add_points(uint32_t *coefficients, int64_t rows, int64_t size,
                                const int64_t *counts, const uint32_t *points,
                                const uint32_t *values, int64_t bits, const uint32_t *powers,
                                const uint32_t *logs, uint32_t *scratch, int64_t *repeated)
{
    const uint32_t whole = ((uint32_t)1 << bits) - 1;
    uint32_t *missing = scratch, *made = scratch + size, *next = scratch + 2 * size;
    for (int64_t row = 0; row < rows; row++) {
        uint32_t *own = coefficients + row * size;
        const int64_t count = counts[row];
        memcpy(missing, points, (size_t)count * sizeof *missing);
        for (int64_t start = 0; start < count; start += FIELD_BLOCK)
            evaluate_block(own, size, missing + start, least(count - start, FIELD_BLOCK), powers,
                           logs);
        for (int64_t i = 0; i < count; i++)
            missing[i] ^= values[i];
        for (int64_t i = 0; i + 1 < count; i++)
            for (int64_t later = i + 1; later < count; later++) {
                const uint32_t difference = points[later] ^ points[i];
                *repeated |= difference == 0; /* the mask keeps the index in the table */
                const uint32_t apart = whole - (logs[difference] & whole);
                missing[later] = powers[logs[missing[later] ^ missing[i]] + apart];
            }
        for (int64_t i = count - 1; i >= 0; i--) { /* times (X - point), plus a difference */
            const uint32_t point = logs[points[i]];
            uint32_t *const last = made;
            const int64_t degree = count - 1 - i;
            next[0] = missing[i];
            for (int64_t t = 1; t <= degree; t++)
                next[t] = last[t - 1];
            for (int64_t t = 0; t < degree; t++)
                next[t] ^= powers[logs[last[t]] + point];
            made = next;
            next = last;
        }
        for (int64_t t = 0; t < count; t++)
            own[t] ^= made[t];
        points += count;
        values += count;
    }
}

HOT API void faintly_read_polynomial(const uint64_t *seeds, const uint32_t *fields, int64_t size,
                                 int64_t reports, const uint64_t *ids, int64_t count,
                                 const int64_t *readings, int64_t bits, int64_t hashed,
                                 const uint32_t *powers, const uint32_t *logs, uint32_t *table,
                                 int64_t *totals)
{
    const int64_t order = (int64_t)1 << bits;
    const int tabled = hashed && count >= order; /* then each point is evaluated once */
    uint32_t symbols[FIELD_BLOCK], words[FIELD_BLOCK] = {0};
    for (int64_t i = 0; i < reports; i++) {
        const uint32_t *own = fields + i * size;
        for (int64_t first = 0; tabled && first < order; first += FIELD_BLOCK) {
            const int64_t many = least(order - first, FIELD_BLOCK);
            for (int64_t c = 0; c < many; c++)
                table[first + c] = (uint32_t)(first + c);
            evaluate_block(own, size, table + first, many, powers, logs);
        }
        for (int64_t start = 0; start < count; start += FIELD_BLOCK) {
            const uint64_t *some = ids + start;
            const int64_t many = least(count - start, FIELD_BLOCK);
            if (hashed)
                half_sip_block(seeds[i], some, many, CLOSING(TAG_POINT), words);
            for (int64_t c = 0; c < many; c++) {
                symbols[c] = hashed ? words[c] >> (32 - bits) : (uint32_t)some[c];
                if (tabled)
                    symbols[c] = table[symbols[c]];
            }
            if (!tabled)
                evaluate_block(own, size, symbols, many, powers, logs);
            count_block(totals + start, count, many, readings, symbols, words);
        }
    }
}
