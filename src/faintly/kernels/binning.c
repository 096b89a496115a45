/* Signed bins: rounding, adding items to bins, the cells of reports, reading them. */

#include "kernels.h"

/* Unbiased rounding with one word per value. A value's word decides unless the two agree in all
 * 32 bits: then it is a tie, rounded toward 0 here and counted for the caller to settle. */
HOT API void faintly_round_values(const double *values, const uint32_t *words, int64_t count,
                                  int64_t steps, int32_t *rounded, int64_t *bad_and_ties)
{
    const double most = (double)steps;
    int64_t bad = 0, ties = 0;
    for (int64_t i = 0; i < count; i++) {
        const double size = values[i] < 0 ? -values[i] : values[i];
        const int fits = size <= 1.0; /* no for NaN, which has no integer part */
        const double scaled = fits ? size * most : 0.0;
        const int32_t low = (int32_t)scaled;
        const double odds = (scaled - (double)low) * 4294967296.0, drawn = (double)words[i];
        const int up = odds >= drawn + 1;
        bad += !fits;
        ties += !up & (odds > drawn);
        rounded[i] = values[i] < 0 ? -(low + up) : low + up;
    }
    bad_and_ties[0] = bad;
    bad_and_ties[1] = ties;
}

/* The hashes for bin and sign, which share their rounds over the id. */
INLINE void half_sip_place(uint64_t key, uint64_t id, uint32_t *bin, uint32_t *sign)
{
    const struct sip opened = sip_open(key, id);
    *bin = sip_close(opened, CLOSING(TAG_BIN));
    *sign = sip_close(opened, CLOSING(TAG_SIGN));
}

/* Adds the amounts, negated where a sign is odd, to the bins of one client. */
INLINE void add_to_bins(const uint32_t *where, const uint32_t *signs,
                        const int32_t *amounts, int64_t count, int64_t *bins)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t odd = signs[i] & 1;
        bins[where[i]] += (amounts[i] ^ -odd) + odd;
    }
}

HOT API void faintly_bin_prf(const uint64_t *seeds, const int64_t *offsets, int64_t clients,
                             const uint64_t *ids, const int32_t *amounts, int64_t bins,
                             int64_t *sums)
{
    uint64_t keys[ITEM_BLOCK];
    uint32_t where[ITEM_BLOCK], signs[ITEM_BLOCK];
    const int64_t items = offsets[clients];
    int64_t client = 0;
    for (int64_t start = 0; start < items; start += ITEM_BLOCK) {
        const int64_t many = least(items - start, ITEM_BLOCK);
        int64_t owner = client;
        for (int64_t i = 0; i < many; owner++)
            for (; i < many && start + i < offsets[owner + 1]; i++)
                keys[i] = seeds[owner];
        for (int64_t i = 0; i < many; i++) {
            half_sip_place(keys[i], ids[start + i], where + i, signs + i);
            where[i] = scale_to(where[i], (uint32_t)bins);
        }
        for (int64_t i = 0; i < many;) {
            while (offsets[client + 1] <= start + i)
                client++;
            const int64_t left = offsets[client + 1] - start - i;
            const int64_t held = least(left, many - i);
            add_to_bins(where + i, signs + i, amounts + start + i, held, sums + client * bins);
            i += held;
        }
    }
}

API void faintly_bin_blake2s(const uint64_t *seeds, const int64_t *offsets, int64_t clients,
                             const uint64_t *ids, const int32_t *amounts, int64_t bins,
                             int64_t *sums)
{
    for (int64_t c = 0; c < clients; c++) {
        uint32_t keyed[8];
        blake2s_keyed(keyed, seeds[c], 8);
        for (int64_t i = offsets[c]; i < offsets[c + 1]; i++) {
            uint32_t where = bins > 1 ? blake2s_first(keyed, ids[i], CLOSING(TAG_BIN)) : 0;
            const uint32_t sign = blake2s_first(keyed, ids[i], CLOSING(TAG_SIGN));
            where = scale_to(where, (uint32_t)bins);
            add_to_bins(&where, &sign, amounts + i, 1, sums + c * bins);
        }
    }
}

#define MAX_WIDTH 16 /* bits of a bin's number in the linear family */

/* What each seed draws: a public map, a row r, and the `width` rows of A. */
struct drawn {
    uint32_t map[CLIENT_BLOCK], row[CLIENT_BLOCK], matrix[MAX_WIDTH][CLIENT_BLOCK];
};

INLINE void draw_rows(const uint64_t *seeds, int64_t count, int64_t maps, int64_t width,
                      uint32_t low, struct drawn *drawn)
{
    if (maps > 1)
        draw_maps(seeds, count, maps, drawn->map);
    else
        memset(drawn->map, 0, sizeof drawn->map);
    for (int64_t i = 0; i < count; i++)
        drawn->row[i] = half_sip(seeds[i], 0, CLOSING(TAG_ROW)) & low;
    for (int64_t bit = 0; bit < width; bit++)
        for (int64_t i = 0; i < count; i++)
            drawn->matrix[bit][i] = half_sip(seeds[i], (uint64_t)bit, CLOSING(TAG_MATRIX)) & low;
}

/* Bins and signs of one client's items, at most ITEM_BLOCK of them. */
INLINE void place_linear(const struct public_maps *maps, const struct drawn *drawn,
                         int64_t c, int64_t width, const uint64_t *ids, int64_t count,
                         uint32_t *where, uint32_t *signs)
{
    uint32_t codes[ITEM_BLOCK];
    const uint64_t mask_key = maps->mask_key[drawn->map[c]];
    const uint32_t row = drawn->row[c];
    code_items(maps, drawn->map[c], ids, count, codes);
    for (int64_t i = 0; i < count; i++) {
        signs[i] = half_sip(mask_key, ids[i], CLOSING(TAG_MASK)) ^ parity_lane(codes[i] & row);
        where[i] = 0;
    }
    for (int64_t bit = 0; bit < width; bit++) {
        const uint32_t mask = drawn->matrix[bit][c];
        for (int64_t i = 0; i < count; i++)
            where[i] |= parity_lane(codes[i] & mask) << bit;
    }
}

HOT API void faintly_bin_linear(const uint64_t *seeds, const int64_t *offsets, int64_t clients,
                                const uint64_t *ids, const int32_t *amounts, int64_t width,
                                const uint32_t *factor, const uint32_t *offset,
                                const uint64_t *mask_key, const uint64_t *fold_key,
                                int64_t bijective, int64_t maps, int64_t bits, int64_t *sums)
{
    const uint32_t low = (uint32_t)(((uint64_t)1 << bits) - 1);
    const struct public_maps all = maps_of(factor, offset, mask_key, fold_key, bijective, bits);
    uint32_t where[ITEM_BLOCK], signs[ITEM_BLOCK];
    struct drawn drawn;
    for (int64_t first = 0; first < clients; first += CLIENT_BLOCK) {
        const int64_t many = least(clients - first, CLIENT_BLOCK);
        draw_rows(seeds + first, many, maps, width, low, &drawn);
        for (int64_t c = 0; c < many; c++) {
            const int64_t stop = offsets[first + c + 1];
            for (int64_t i = offsets[first + c]; i < stop; i += ITEM_BLOCK) {
                const int64_t held = least(stop - i, ITEM_BLOCK);
                place_linear(&all, &drawn, c, width, ids + i, held, where, signs);
                add_to_bins(where, signs, amounts + i, held, sums + ((first + c) << width));
            }
        }
    }
}

#define LANE_BIT(bit) (-((LANE_NUMBERS >> (bit)) & 1)) /* -1 where a lane's number has the bit */
static const lanes LANE_NUMBERS = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* One step of a transform within lanes: lane i meets lane i ^ half. */
#if defined(__clang__)
#define LANES_CROSSED(f, half)                                                               \
    __builtin_shufflevector(f, f, 0 ^ (half), 1 ^ (half), 2 ^ (half), 3 ^ (half), 4 ^ (half), \
                            5 ^ (half), 6 ^ (half), 7 ^ (half), 8 ^ (half), 9 ^ (half),      \
                            10 ^ (half), 11 ^ (half), 12 ^ (half), 13 ^ (half), 14 ^ (half), \
                            15 ^ (half))
#else
#define LANES_CROSSED(f, half) __builtin_shuffle(f, LANE_NUMBERS ^ (half))
#endif
#define LANE_STEP(f, bit)                                                                    \
    ((f) = LANES_CROSSED(f, 1u << (bit)) + (((f) ^ LANE_BIT(bit)) - LANE_BIT(bit)))

/* Transforms rows of 2^width words, stored one after another, 16 words at a time. */
INLINE void transform_lanes(uint32_t *words, int64_t count, int64_t width)
{
    for (int64_t i = 0; i < count; i += STEP) {
        const size_t size = sizeof(uint32_t) * (size_t)least(count - i, STEP);
        lanes f = {0};
        memcpy(&f, words + i, size);
        if (width > 0) LANE_STEP(f, 0);
        if (width > 1) LANE_STEP(f, 1);
        if (width > 2) LANE_STEP(f, 2);
        if (width > 3) LANE_STEP(f, 3);
        memcpy(words + i, &f, size);
    }
    for (int64_t half = STEP; half < (int64_t)1 << width; half *= 2)
        for (int64_t start = 0; start < count; start += 2 * half)
            for (int64_t i = start; i < start + half; i++) {
                const uint32_t a = words[i], b = words[i + half];
                words[i] = a + b;
                words[i + half] = a - b;
            }
}

/* The indices r ^ A^T m of one report's cells. */
INLINE void index_cells(const struct drawn *drawn, int64_t i, int64_t width, uint32_t base,
                        uint32_t *index)
{
    const int64_t cells = (int64_t)1 << width;
    lanes low = {0};
    for (int bit = 0; bit < width && bit < 4; bit++)
        low ^= LANE_BIT(bit) & drawn->matrix[bit][i];
    for (int64_t first = 0; first < cells; first += STEP) {
        uint32_t high = base;
        for (int64_t bit = 4; bit < width; bit++)
            high ^= drawn->matrix[bit][i] & (0u - ((uint32_t)(first >> bit) & 1));
        const lanes made = low ^ high;
        memcpy(index + first, &made, sizeof *index * (size_t)least(cells, STEP));
    }
}

/* Words wrap, so a field outside its range does no harm before the caller refuses it. */
HOT API void faintly_linear_cells(const uint64_t *seeds, const uint32_t *fields, int64_t reports,
                                  int64_t center, int64_t width, int64_t maps, int64_t bits,
                                  uint32_t *index, uint32_t *weight, int64_t *largest)
{
    const uint32_t low = (uint32_t)(((uint64_t)1 << bits) - 1);
    uint32_t most = 0;
    struct drawn drawn;
    for (int64_t first = 0; first < reports; first += CLIENT_BLOCK) {
        const int64_t many = least(reports - first, CLIENT_BLOCK);
        const uint32_t *given = fields + (first << width);
        uint32_t *own = weight + (first << width);
        draw_rows(seeds + first, many, maps, width, low, &drawn);
        for (int64_t i = 0; i < many << width; i++) {
            most = given[i] > most ? given[i] : most;
            own[i] = given[i] - (uint32_t)center;
        }
        transform_lanes(own, many << width, width);
        for (int64_t i = 0; i < many; i++) {
            const uint32_t table = (uint32_t)((uint64_t)drawn.map[i] << bits);
            index_cells(&drawn, i, width, drawn.row[i] | table, index + ((first + i) << width));
        }
    }
    *largest = most;
}

/* Sums of the lower and of the upper halves of the squares: neither can overflow. */
HOT API void faintly_sum_squares(const uint32_t *fields, int64_t count, int64_t center,
                                 uint64_t *halves)
{
    uint64_t low = 0, high = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t value = fields[i], middle = (uint32_t)center;
        const uint64_t size = value < middle ? middle - value : value - middle;
        const uint64_t square = size * size;
        low += (uint32_t)square;
        high += square >> 32;
    }
    halves[0] = low;
    halves[1] = high;
}

/* Adds Σ ±values[i, where[i]] over a block, minus where the lowest bit of `signs` is set. The
 * sum is unsigned, so that it wraps as numpy's does. */
INLINE void gather_block(const int64_t *values, int64_t bins, int64_t size,
                         const uint32_t *where, const uint32_t *signs, int64_t *sum)
{
    uint64_t total = (uint64_t)*sum;
    for (int64_t i = 0; i < size; i++) {
        const uint64_t value = (uint64_t)values[i * bins + where[i]];
        const uint64_t minus = 0u - (uint64_t)(signs[i] & 1);
        total += (value ^ minus) - minus;
    }
    *sum = (int64_t)total;
}

HOT API void faintly_read_prf(const uint64_t *seeds, const int64_t *values, int64_t bins,
                              int64_t reports, const uint64_t *ids, int64_t count,
                              int64_t *totals)
{
    uint32_t where[REPORT_BLOCK] = {0}, signs[REPORT_BLOCK];
    for (int64_t start = 0; start < reports; start += REPORT_BLOCK) {
        const int64_t size = least(reports - start, REPORT_BLOCK);
        for (int64_t c = 0; c < count; c++) {
            const uint64_t id = ids[c];
            if (bins == 1)
                for (int64_t i = 0; i < size; i++)
                    signs[i] = half_sip(seeds[start + i], id, CLOSING(TAG_SIGN));
            else
                for (int64_t i = 0; i < size; i++) {
                    const struct sip opened = sip_open(seeds[start + i], id);
                    where[i] = scale_to(sip_close(opened, CLOSING(TAG_BIN)), (uint32_t)bins);
                    signs[i] = sip_close(opened, CLOSING(TAG_SIGN));
                }
            gather_block(values + start * bins, bins, size, where, signs, totals + c);
        }
    }
}

#define BLAKE_LANES 16 /* reports hashed together: a lane for each, under a key of its own */

INLINE void blake_lanes_mix(uint32_t (*v)[BLAKE_LANES], int a, int b, int c, int d, uint32_t x,
                            uint32_t y)
{
    for (int l = 0; l < BLAKE_LANES; l++) {
        uint32_t p = v[a][l], q = v[b][l], r = v[c][l], s = v[d][l];
        p += q + x; s = rotr(s ^ p, 16);
        r += s;     q = rotr(q ^ r, 12);
        p += q + y; s = rotr(s ^ p, 8);
        r += s;     q = rotr(q ^ r, 7);
        v[a][l] = p; v[b][l] = q; v[c][l] = r; v[d][l] = s;
    }
}

/* The first words of the hashes of one id and the closing word in all lanes. */
INLINE void blake_lanes_first(const uint32_t (*keyed)[BLAKE_LANES], uint64_t id,
                              uint32_t closing, uint32_t *first)
{
    const uint32_t m[16] = {(uint32_t)id, (uint32_t)(id >> 32), closing & 0xffffffu};
    uint32_t v[16][BLAKE_LANES];
    memcpy(v, keyed, 8 * sizeof *v);
    for (int i = 0; i < 8; i++)
        for (int l = 0; l < BLAKE_LANES; l++)
            v[8 + i][l] = BLAKE_IV[i] ^ (i == 4 ? 64 + (closing >> 24) : i == 6 ? ~0u : 0);
    for (int round = 0; round < 10; round++) {
        const uint8_t *s = BLAKE_SIGMA[round];
        for (int i = 0; i < 4; i++)
            blake_lanes_mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            blake_lanes_mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4,
                            m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int l = 0; l < BLAKE_LANES; l++)
        first[l] = keyed[0][l] ^ v[0][l] ^ v[8][l];
}

HOT API void faintly_read_blake2s(const uint64_t *seeds, const int64_t *values, int64_t bins,
                                  int64_t reports, const uint64_t *ids, int64_t count,
                                  int64_t *totals)
{
    uint32_t keyed[8][BLAKE_LANES] = {{0}}, where[BLAKE_LANES] = {0}, signs[BLAKE_LANES];
    for (int64_t start = 0; start < reports; start += BLAKE_LANES) {
        const int64_t size = least(reports - start, BLAKE_LANES);
        for (int64_t l = 0; l < size; l++) {
            uint32_t own[8];
            blake2s_keyed(own, seeds[start + l], 8);
            for (int i = 0; i < 8; i++)
                keyed[i][l] = own[i];
        }
        for (int64_t c = 0; c < count; c++) {
            if (bins > 1)
                blake_lanes_first(keyed, ids[c], CLOSING(TAG_BIN), where);
            for (int l = 0; l < BLAKE_LANES; l++)
                where[l] = scale_to(where[l], (uint32_t)bins);
            blake_lanes_first(keyed, ids[c], CLOSING(TAG_SIGN), signs);
            gather_block(values + start * bins, bins, size, where, signs, totals + c);
        }
    }
}
