/* The hot loops. reference*.py say what each one means; tests hold the two equal.
 *
 *   tables      measure_cells, scatter_add, walsh_hadamard, look_up, map_codes
 *   linear      read_cells, read_linear
 *   hashing     HalfSipHash: read_prf, hash_ids, hash_words; BLAKE2s: read_blake2s, hash_wide
 *   GF(2)       solve_gf2, read_parity
 *   fields      solve_field, read_inner; read_polynomial over GF(2^bits)
 *   projection  read_slots, project_prf, project_linear
 *
 * Callers have checked every size and index (compiled*.py). Integers wrap nowhere that the
 * reference would not. No Python headers: loaded through ctypes,
 * which releases the interpreter lock around each call. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

/* HOT functions are compiled for several instruction sets, and the loader picks the best one
 * that the machine has. Elsewhere the baseline serves: on ARM that already has vectors. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(FAINTLY_ONE_TARGET)
#define HOT __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define HOT
#endif

/* Tags keep bins and signs apart; primitives/hashing.py names the same letters. */
#define TAG_BIN ((uint32_t)'b')
#define TAG_SIGN ((uint32_t)'s')

static inline uint32_t rotl(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }
static inline uint32_t rotr(uint32_t x, int by) { return (x >> by) | (x << (32 - by)); }

static inline uint32_t parity32(uint32_t x)
{
    x ^= x >> 16;
    x ^= x >> 8;
    x ^= x >> 4;
    return (0x6996u >> (x & 15)) & 1;
}

/* Tables of 32- or 64-bit integers; the caller keeps every sum below what the type holds. */
#define DEFINE_TABLES(bits)                                                                  \
    HOT API void faintly_scatter_add_##bits(int##bits##_t *tables, const uint32_t *index,    \
                                            const int32_t *weight, int64_t count)            \
    {                                                                                        \
        for (int64_t i = 0; i < count; i++)                                                  \
            tables[index[i]] += weight[i];                                                   \
    }                                                                                        \
    HOT API void faintly_walsh_hadamard_##bits(int##bits##_t *rows, int64_t count,           \
                                               int64_t size)                                 \
    {                                                                                        \
        for (int64_t row = 0; row < count; row++) {                                          \
            int##bits##_t *f = rows + row * size;                                            \
            for (int64_t half = 1; half < size; half *= 2)                                   \
                for (int64_t start = 0; start < size; start += 2 * half)                     \
                    for (int64_t i = start; i < start + half; i++) {                         \
                        int##bits##_t a = f[i], b = f[i + half];                             \
                        f[i] = a + b;                                                        \
                        f[i + half] = a - b;                                                 \
                    }                                                                        \
        }                                                                                    \
    }                                                                                        \
    HOT API void faintly_look_up_##bits(const int##bits##_t *tables, const uint32_t *cells,  \
                                        const uint32_t *flips, int64_t count,                \
                                        int64_t *values)                                     \
    {                                                                                        \
        for (int64_t i = 0; i < count; i++) {                                                \
            const int64_t value = tables[cells[i]];                                          \
            values[i] = flips[i] & 1 ? -value : value;                                       \
        }                                                                                    \
    }

DEFINE_TABLES(32)
DEFINE_TABLES(64)

/* What the callers check before they touch a table: the largest index, the sum of |weights|. */
HOT API void faintly_measure_cells(const uint32_t *index, const int32_t *weight, int64_t count,
                                   int64_t *largest_and_mass)
{
    uint32_t largest = 0;
    int64_t mass = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = index[i] > largest ? index[i] : largest;
        mass += weight[i] < 0 ? -(int64_t)weight[i] : weight[i];
    }
    largest_and_mass[0] = largest;
    largest_and_mass[1] = mass;
}

HOT API void faintly_map_codes(const uint64_t *ids, int64_t count, const uint32_t *factor,
                               const uint32_t *offset, int64_t rounds, int64_t bits,
                               uint32_t *codes)
{
    const uint32_t low = (uint32_t)(((uint64_t)1 << bits) - 1);
    const int shift = (int)((bits + 1) / 2);
    for (int64_t i = 0; i < count; i++) {
        uint32_t code = (uint32_t)ids[i];
        for (int64_t round = 0; round < rounds; round++) {
            code = (code * factor[round] + offset[round]) & low;
            code ^= code >> shift;
        }
        codes[i] = code;
    }
}

HOT API void faintly_read_cells(const uint32_t *index, const int32_t *weight, int64_t cells,
                                const uint32_t *codes, int64_t count, int64_t *totals)
{
    for (int64_t c = 0; c < count; c++) {
        int64_t total = 0;
        for (int64_t i = 0; i < cells; i++)
            total += parity32(index[i] & codes[c]) ? -(int64_t)weight[i] : weight[i];
        totals[c] = total;
    }
}

API void faintly_read_linear(const uint32_t *row, const uint32_t *matrix, int64_t width,
                             const int64_t *values, int64_t reports, const uint32_t *codes,
                             int64_t count, int64_t *totals)
{
    for (int64_t c = 0; c < count; c++) {
        uint32_t code = codes[c];
        int64_t total = 0;
        for (int64_t i = 0; i < reports; i++) {
            int64_t where = 0;
            for (int64_t bit = 0; bit < width; bit++)
                where |= (int64_t)parity32(matrix[i * width + bit] & code) << bit;
            int64_t value = values[(i << width) + where];
            total += parity32(row[i] & code) ? -value : value;
        }
        totals[c] = total;
    }
}

#define SIP_ROUND                                                                            \
    do {                                                                                     \
        v0 += v1; v1 = rotl(v1, 5) ^ v0; v0 = rotl(v0, 16);                                  \
        v2 += v3; v3 = rotl(v3, 8) ^ v2;                                                     \
        v0 += v3; v3 = rotl(v3, 7) ^ v0;                                                     \
        v2 += v1; v1 = rotl(v1, 13) ^ v2; v2 = rotl(v2, 16);                                 \
    } while (0)

/* The last word of a message: its length in bytes, and the tag and number that follow the id. */
#define CLOSING(tag) (9u << 24 | (tag))
#define CLOSING_WORD(tag, word) (10u << 24 | (uint32_t)(word) << 8 | (tag))

/* HalfSipHash-1-3 under `key` of an id and the closing word. */
static inline uint32_t half_sip(uint64_t key, uint64_t id, uint32_t closing)
{
    const uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    const uint32_t m0 = (uint32_t)id, m1 = (uint32_t)(id >> 32);
    uint32_t v0 = k0, v1 = k1, v2 = k0 ^ 0x6c796765u, v3 = k1 ^ 0x74656462u;
    v3 ^= m0; SIP_ROUND; v0 ^= m0;
    v3 ^= m1; SIP_ROUND; v0 ^= m1;
    v3 ^= closing; SIP_ROUND; v0 ^= closing;
    v2 ^= 0xff;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    return v1 ^ v3;
}

static inline int64_t signed_value(uint32_t hash_bin, uint32_t hash_sign, const int64_t *bins,
                                   int64_t count)
{
    int64_t value = bins[((uint64_t)hash_bin * (uint64_t)count) >> 32];
    return hash_sign & 1 ? -value : value;
}

API void faintly_read_prf(const uint64_t *seeds, const int64_t *values, int64_t bins,
                          int64_t reports, const uint64_t *ids, int64_t count, int64_t *totals)
{
    for (int64_t c = 0; c < count; c++) {
        int64_t total = 0;
        for (int64_t i = 0; i < reports; i++) {
            uint32_t where = bins > 1 ? half_sip(seeds[i], ids[c], CLOSING(TAG_BIN)) : 0;
            total += signed_value(where, half_sip(seeds[i], ids[c], CLOSING(TAG_SIGN)),
                                  values + i * bins, bins);
        }
        totals[c] = total;
    }
}

static const uint32_t BLAKE_IV[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                     0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
static const uint8_t BLAKE_SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

#define BLAKE_G(a, b, c, d, x, y)                                                            \
    do {                                                                                     \
        v[a] += v[b] + (x); v[d] = rotr(v[d] ^ v[a], 16);                                    \
        v[c] += v[d];       v[b] = rotr(v[b] ^ v[c], 12);                                    \
        v[a] += v[b] + (y); v[d] = rotr(v[d] ^ v[a], 8);                                     \
        v[c] += v[d];       v[b] = rotr(v[b] ^ v[c], 7);                                     \
    } while (0)

static void blake2s_compress(uint32_t h[8], const uint32_t m[16], uint32_t bytes, uint32_t last)
{
    uint32_t v[16];
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = BLAKE_IV[i];
    }
    v[12] ^= bytes;
    v[14] ^= last;
    for (int round = 0; round < 10; round++) {
        const uint8_t *s = BLAKE_SIGMA[round];
        BLAKE_G(0, 4, 8, 12, m[s[0]], m[s[1]]);
        BLAKE_G(1, 5, 9, 13, m[s[2]], m[s[3]]);
        BLAKE_G(2, 6, 10, 14, m[s[4]], m[s[5]]);
        BLAKE_G(3, 7, 11, 15, m[s[6]], m[s[7]]);
        BLAKE_G(0, 5, 10, 15, m[s[8]], m[s[9]]);
        BLAKE_G(1, 6, 11, 12, m[s[10]], m[s[11]]);
        BLAKE_G(2, 7, 8, 13, m[s[12]], m[s[13]]);
        BLAKE_G(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

/* The state after the key block: shared by every id that is hashed under one seed. */
static void blake2s_keyed(uint32_t h[8], uint64_t seed, uint32_t digest_bytes)
{
    uint32_t block[16] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    memcpy(h, BLAKE_IV, sizeof BLAKE_IV);
    h[0] ^= 0x01010000u ^ (8u << 8) ^ digest_bytes; /* sequential mode, 8-byte key */
    blake2s_compress(h, block, 64, 0);
}

/* BLAKE2s of an id and the closing word, whose top byte is the length as in HalfSipHash. */
static void blake2s(const uint32_t keyed[8], uint64_t id, uint32_t closing, uint32_t h[8])
{
    const uint32_t block[16] = {(uint32_t)id, (uint32_t)(id >> 32), closing & 0xffffffu};
    memcpy(h, keyed, 8 * sizeof *h);
    blake2s_compress(h, block, 64 + (closing >> 24), 0xffffffffu);
}

static uint32_t blake2s_first(const uint32_t keyed[8], uint64_t id, uint32_t closing)
{
    uint32_t h[8];
    blake2s(keyed, id, closing, h);
    return h[0];
}

API void faintly_read_blake2s(const uint64_t *seeds, const int64_t *values, int64_t bins,
                              int64_t reports, const uint64_t *ids, int64_t count,
                              int64_t *totals)
{
    for (int64_t i = 0; i < reports; i++) {
        uint32_t keyed[8];
        blake2s_keyed(keyed, seeds[i], 8);
        for (int64_t c = 0; c < count; c++) {
            uint32_t where = bins > 1 ? blake2s_first(keyed, ids[c], CLOSING(TAG_BIN)) : 0;
            totals[c] += signed_value(where, blake2s_first(keyed, ids[c], CLOSING(TAG_SIGN)),
                                      values + i * bins, bins);
        }
    }
}

/* Retrieval: equations over GF(2), hashed under tag 'a', flipped under 'c'. */
#define TAG_EQUATION ((uint32_t)'a')
#define TAG_COIN ((uint32_t)'c')

HOT API void faintly_hash_ids(uint64_t key, const uint64_t *ids, int64_t count, int64_t tag,
                              uint32_t *words)
{
    for (int64_t i = 0; i < count; i++)
        words[i] = half_sip(key, ids[i], CLOSING((uint32_t)tag));
}

API void faintly_hash_words(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                            int64_t tag, int64_t count, uint32_t *words)
{
    for (int64_t i = 0; i < items; i++)
        for (int64_t w = 0; w < count; w++)
            words[i * count + w] =
                half_sip(seeds[i], ids[i], CLOSING_WORD((uint32_t)tag, w));
}

static int compare_keys(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void sort_keys(uint64_t *keys, int64_t count)
{
    if (count > 32) { /* most clients hold few items, where insertion is fastest */
        qsort(keys, (size_t)count, sizeof *keys, compare_keys);
        return;
    }
    for (int64_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        int64_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

static inline int64_t lowest_bit(const uint32_t *row, int64_t words)
{
    for (int64_t w = 0; w < words; w++)
        if (row[w]) {
            int64_t bit = 32 * w;
            for (uint32_t rest = row[w]; !(rest & 1); rest >>= 1)
                bit++;
            return bit;
        }
    return -1;
}

/* One segment: `keys` lists its items in order, `solution` holds the free bits. */
static inline void solve_segment(const uint64_t *keys, int64_t count, const uint32_t *rows,
                                 const uint8_t *answers, int64_t words, uint32_t *solution,
                                 uint32_t *basis, int64_t *pivots, uint8_t *sides)
{
    int64_t rank = 0;
    for (int64_t i = 0; i < count && rank < 32 * words; i++) {
        const int64_t item = (int64_t)(uint32_t)keys[i];
        uint32_t *row = basis + rank * words;
        uint8_t side = answers[item];
        memcpy(row, rows + item * words, (size_t)words * sizeof *row);
        for (int64_t r = 0; r < rank; r++) {
            const uint32_t held = (row[pivots[r] >> 5] >> (pivots[r] & 31)) & 1;
            const uint32_t mask = 0u - held, *known = basis + r * words;
            for (int64_t w = 0; w < words; w++)
                row[w] ^= known[w] & mask;
            side ^= sides[r] & (uint8_t)held;
        }
        const int64_t pivot = lowest_bit(row, words);
        if (pivot < 0)
            continue;
        pivots[rank] = pivot;
        sides[rank++] = side;
    }
    while (rank-- > 0) {
        const uint32_t *row = basis + rank * words, bit = 1u << (pivots[rank] & 31);
        uint32_t *own = solution + (pivots[rank] >> 5), folded = 0;
        *own &= ~bit;
        for (int64_t w = 0; w < words; w++)
            folded ^= row[w] & solution[w];
        if (parity32(folded) ^ sides[rank])
            *own |= bit;
    }
}

API void faintly_solve_gf2(const int64_t *offsets, int64_t segments, const uint32_t *order,
                           const uint32_t *rows, const uint8_t *answers, int64_t words,
                           uint32_t *solutions, uint32_t *basis, int64_t *pivots,
                           uint8_t *sides, uint64_t *keys)
{
    for (int64_t s = 0; s < segments; s++) {
        const int64_t first = offsets[s], count = offsets[s + 1] - first;
        for (int64_t i = 0; i < count; i++)
            keys[i] = ((uint64_t)order[first + i] << 32) | (uint32_t)i;
        sort_keys(keys, count);
        if (words == 1) /* a constant here lets the compiler drop the inner loops */
            solve_segment(keys, count, rows + first, answers + first, 1, solutions + s,
                          basis, pivots, sides);
        else
            solve_segment(keys, count, rows + first * words, answers + first, words,
                          solutions + s * words, basis, pivots, sides);
    }
}

#define PARITY_BLOCK 256 /* reports whose folded words stay in the first cache */

API void faintly_read_parity(const uint64_t *seeds, const uint32_t *columns, int64_t words,
                             int64_t reports, const uint64_t *ids, int64_t count,
                             int64_t *totals)
{
    uint32_t folded[PARITY_BLOCK];
    for (int64_t start = 0; start < reports; start += PARITY_BLOCK) {
        const uint64_t *key = seeds + start;
        const int64_t size = reports - start < PARITY_BLOCK ? reports - start : PARITY_BLOCK;
        for (int64_t c = 0; c < count; c++) {
            for (int64_t i = 0; i < size; i++)
                folded[i] = half_sip(key[i], ids[c], CLOSING_WORD(TAG_COIN, 0)) & 1;
            for (int64_t w = 0; w < words; w++) {
                const uint32_t *column = columns + w * reports + start;
                for (int64_t i = 0; i < size; i++)
                    folded[i] ^=
                        half_sip(key[i], ids[c], CLOSING_WORD(TAG_EQUATION, w)) & column[i];
            }
            int64_t odd = 0;
            for (int64_t i = 0; i < size; i++)
                odd += parity32(folded[i]);
            totals[c] += size - 2 * odd;
        }
    }
}

/* Retrieval over a small field of `order` elements, given as tables. */
#define TAG_POINT ((uint32_t)'g')
#define TAG_SYMBOL ((uint32_t)'y')
#define TAG_WIDE ((uint32_t)'w')

API void faintly_hash_wide(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                           int64_t count, uint32_t *words)
{
    uint32_t keyed[8], digest[8];
    for (int64_t i = 0; i < items; i++) {
        if (i == 0 || seeds[i] != seeds[i - 1]) /* items of one client stand together */
            blake2s_keyed(keyed, seeds[i], 32);
        for (int64_t w = 0; w < count; w += 8) {
            blake2s(keyed, ids[i], CLOSING_WORD(TAG_WIDE, w / 8), digest);
            memcpy(words + i * count + w, digest,
                   (size_t)(count - w < 8 ? count - w : 8) * sizeof *words);
        }
    }
}

API void faintly_solve_field(const int64_t *offsets, int64_t segments, uint8_t *rows,
                             uint8_t *answers, int64_t size, uint8_t *solutions,
                             const uint8_t *products, const uint8_t *differences,
                             const uint8_t *inverses, int64_t order, int64_t *kept,
                             int64_t *pivots)
{
    for (int64_t s = 0; s < segments; s++) {
        uint8_t *solution = solutions + s * size;
        int64_t rank = 0;
        for (int64_t item = offsets[s]; item < offsets[s + 1]; item++) {
            uint8_t *row = rows + item * size;
            for (int64_t r = 0; r < rank; r++) {
                const uint8_t *known = rows + kept[r] * size;
                if (!row[pivots[r]])
                    continue;
                const uint8_t *times = products + row[pivots[r]] * order;
                for (int64_t j = pivots[r]; j < size; j++)
                    row[j] = differences[row[j] * order + times[known[j]]];
                answers[item] = differences[answers[item] * order + times[answers[kept[r]]]];
            }
            int64_t pivot = 0;
            while (pivot < size && !row[pivot])
                pivot++;
            if (pivot == size)
                continue;
            const uint8_t *over = products + inverses[row[pivot]] * order;
            for (int64_t j = pivot; j < size; j++)
                row[j] = over[row[j]];
            answers[item] = over[answers[item]];
            pivots[rank] = pivot;
            kept[rank++] = item;
        }
        while (rank-- > 0) {
            const uint8_t *row = rows + kept[rank] * size;
            uint8_t left = answers[kept[rank]];
            for (int64_t j = pivots[rank] + 1; j < size; j++)
                left = differences[left * order + products[row[j] * order + solution[j]]];
            solution[pivots[rank]] = left;
        }
    }
}

#define FIELD_BLOCK 128 /* ids taken together, so that hashing is in step and look-ups overlap */

static void half_sip_block(uint64_t key, const uint64_t *ids, int64_t count, uint32_t closing,
                           uint32_t *out)
{
    for (int64_t c = 0; c < count; c++)
        out[c] = half_sip(key, ids[c], closing);
}

/* Totals of signed readings come first, those of their squares `count` entries later. */
static void count_block(int64_t *totals, int64_t count, int64_t size, const int64_t *readings,
                        const uint32_t *symbols, const uint32_t *signs)
{
    for (int64_t c = 0; c < size; c++) {
        const int64_t reading = readings[symbols[c]];
        totals[c] += signs[c] & 1 ? -reading : reading;
        totals[count + c] += reading * reading;
    }
}

enum { PRF, BLAKE2S, WIDE }; /* how rows are hashed: kernels/compiled_fields.py */

struct hasher {
    int64_t family;
    uint64_t seed;
    uint32_t keyed[8];
    uint32_t words[8][FIELD_BLOCK]; /* the wide family makes eight at a time */
};

/* Word w of every id's row; in the wide family words are asked for one after another. */
static uint32_t *row_words(struct hasher *hash, const uint64_t *ids, int64_t count, int64_t w)
{
    if (hash->family == PRF)
        half_sip_block(hash->seed, ids, count, CLOSING_WORD(TAG_SYMBOL, w), hash->words[0]);
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
static const uint32_t *sign_words(struct hasher *hash, const uint64_t *ids, int64_t count,
                                  int64_t words)
{
    if (hash->family == WIDE)
        return row_words(hash, ids, count, words);
    if (hash->family == PRF)
        half_sip_block(hash->seed, ids, count, CLOSING(TAG_SIGN), hash->words[0]);
    for (int64_t c = 0; hash->family == BLAKE2S && c < count; c++)
        hash->words[0][c] = blake2s_first(hash->keyed, ids[c], CLOSING(TAG_SIGN));
    return hash->words[0];
}

/* Adds the product of one symbol and the next digit of every id's word, which is used up:
 * the top one in the wide family, the lowest in the others, whose order is a power of two. */
static void add_products(const uint32_t *products, uint32_t order, int64_t prime, int64_t wide,
                         int64_t count, uint32_t *words, uint32_t *sums)
{
    const uint32_t bits = (uint32_t)lowest_bit(&order, 1);
    for (int64_t c = 0; c < count; c++) {
        const uint64_t scaled = (uint64_t)words[c] * order;
        const uint32_t digit = wide ? (uint32_t)(scaled >> 32) : words[c] & (order - 1);
        words[c] = wide ? (uint32_t)scaled : words[c] >> bits;
        sums[c] = prime == 2 ? sums[c] ^ products[digit] : sums[c] + products[digit];
    }
}

/* The element whose coordinates modulo an odd prime are sums in 16-bit lanes. */
static inline uint32_t fold_lanes(uint32_t sums, uint32_t prime)
{
    return (sums & 0xffff) % prime + (sums >> 16) % prime * prime;
}

API void faintly_read_inner(const uint64_t *seeds, const uint8_t *symbols, int64_t size,
                            int64_t reports, const uint64_t *ids, int64_t count,
                            const int64_t *readings, const uint32_t *lanes, int64_t order,
                            int64_t prime, int64_t each, int64_t family, uint32_t *scratch,
                            int64_t *totals)
{
    const int64_t words = (size + each - 1) / each;
    const int whole = order == 2 && family == WIDE; /* then words are compared at once */
    struct hasher hash = {.family = family};
    uint32_t sums[FIELD_BLOCK];
    for (int64_t i = 0; i < reports; i++) {
        const uint8_t *own = symbols + i * size;
        hash.seed = seeds[i];
        if (family != PRF)
            blake2s_keyed(hash.keyed, seeds[i], family == WIDE ? 32 : 8);
        if (whole)
            memset(scratch, 0, (size_t)words * sizeof *scratch);
        for (int64_t j = 0; j < size; j++)
            if (whole)
                scratch[j >> 5] |= (uint32_t)own[j] << (31 - (j & 31));
            else
                memcpy(scratch + j * order, lanes + own[j] * order,
                       (size_t)order * sizeof *scratch);
        for (int64_t start = 0; start < count; start += FIELD_BLOCK) {
            const uint64_t *some = ids + start;
            const int64_t many = count - start < FIELD_BLOCK ? count - start : FIELD_BLOCK;
            memset(sums, 0, sizeof sums);
            for (int64_t w = 0; w < words; w++) {
                uint32_t *hashed = row_words(&hash, some, many, w);
                const int64_t stop = (w + 1) * each < size ? (w + 1) * each : size;
                for (int64_t c = 0; whole && c < many; c++)
                    sums[c] ^= hashed[c] & scratch[w];
                for (int64_t j = w * each; !whole && j < stop; j++)
                    add_products(scratch + j * order, (uint32_t)order, prime,
                                 family == WIDE, many, hashed, sums);
            }
            for (int64_t c = 0; (whole || prime > 2) && c < many; c++)
                sums[c] = whole ? parity32(sums[c]) : fold_lanes(sums[c], (uint32_t)prime);
            count_block(totals + start, count, many, readings, sums,
                        sign_words(&hash, some, many, words));
        }
    }
}

/* Polynomials over GF(2^bits): powers[logs[a] + logs[b]] = a·b. The logarithm of 0 is
 * 2^(bits+1), and powers is 0 from there on. */
/* Replaces points by the values that the polynomial takes there. */
static void evaluate_block(const uint32_t *coefficients, int64_t size, uint32_t *points,
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

API void faintly_read_polynomial(const uint64_t *seeds, const uint32_t *fields, int64_t size,
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
            const int64_t many = order - first < FIELD_BLOCK ? order - first : FIELD_BLOCK;
            for (int64_t c = 0; c < many; c++)
                table[first + c] = (uint32_t)(first + c);
            evaluate_block(own, size, table + first, many, powers, logs);
        }
        for (int64_t start = 0; start < count; start += FIELD_BLOCK) {
            const uint64_t *some = ids + start;
            const int64_t many = count - start < FIELD_BLOCK ? count - start : FIELD_BLOCK;
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

/* Projection choice: bins and signs of one slot per report, hashed under tag 'p'. */
#define TAG_PROJECTION ((uint32_t)'p')
#define SLOT_BLOCK 1024 /* reports that stay in the first cache while ids pass by */

API void faintly_read_slots(const uint64_t *seeds, const uint32_t *word, const uint32_t *mask,
                            const uint32_t *where, const uint32_t *minus, int64_t reports,
                            int64_t bins, const uint64_t *ids, int64_t count, int64_t *totals,
                            int64_t *hits)
{
    for (int64_t start = 0; start < reports; start += SLOT_BLOCK) {
        const int64_t end = reports - start < SLOT_BLOCK ? reports : start + SLOT_BLOCK;
        for (int64_t c = 0; c < count; c++) {
            uint32_t hit = 0, odd = 0;
            if (bins == 1) { /* every report hits, and the loop is all hashing */
                hit = (uint32_t)(end - start);
                for (int64_t i = start; i < end; i++) {
                    uint32_t hash =
                        half_sip(seeds[i], ids[c], CLOSING_WORD(TAG_PROJECTION, word[i]));
                    odd += ((hash & mask[i]) != 0) ^ minus[i];
                }
            } else {
                for (int64_t i = start; i < end; i++) {
                    uint32_t hash =
                        half_sip(seeds[i], ids[c], CLOSING_WORD(TAG_PROJECTION, word[i]));
                    uint32_t bin = (uint32_t)(((uint64_t)hash * (uint64_t)bins) >> 32);
                    uint32_t same = bin == where[i];
                    hit += same;
                    odd += same & (((hash & mask[i]) != 0) ^ minus[i]);
                }
            }
            hits[c] += hit;
            totals[c] += (int64_t)hit - 2 * (int64_t)odd;
        }
    }
}

#define TAG_GROUP ((uint32_t)'q')
#define MAX_GROUPS 8192

API void faintly_project_prf(const uint64_t *seeds, const int64_t *offsets, int64_t segments,
                             const uint64_t *ids, const uint8_t *negative, int64_t groups,
                             int64_t *sums)
{
    uint32_t masks[32], ones[MAX_GROUPS];
    const int64_t words = (groups + 31) / 32;
    for (int b = 0; b < 32; b++)
        masks[b] = 1u << b;
    for (int64_t s = 0; s < segments; s++) {
        const int64_t count = offsets[s + 1] - offsets[s];
        memset(ones, 0, (size_t)(32 * words) * sizeof *ones);
        for (int64_t t = offsets[s]; t < offsets[s + 1]; t++)
            for (int64_t w = 0; w < words; w++) {
                uint32_t *column = ones + 32 * w;
                uint32_t hash = half_sip(seeds[s], ids[t], CLOSING_WORD(TAG_PROJECTION, w));
                hash ^= 0u - negative[t];
                for (int b = 0; b < 32; b++) /* a test against a mask, not a shift: it vectorises */
                    column[b] += (hash & masks[b]) != 0;
            }
        for (int64_t g = 0; g < groups; g++)
            sums[s * groups + g] = count - 2 * (int64_t)ones[g];
    }
}

API void faintly_project_linear(const uint64_t *seeds, const int64_t *offsets, int64_t segments,
                                const uint32_t *codes, const uint8_t *negative, int64_t groups,
                                int64_t bits, int64_t *sums)
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
                uint32_t x = rows[g] & code;
                x ^= x >> 16;
                x ^= x >> 8;
                x ^= x >> 4;
                x ^= x >> 2;
                x ^= x >> 1;
                ones[g] += (x & 1) ^ flip;
            }
        }
        for (int64_t g = 0; g < groups; g++)
            sums[s * groups + g] = count - 2 * (int64_t)ones[g];
    }
}

/* What benchmarks compare with, and nothing else calls: a bare read-modify-write, and the
 * paper's estimator as its formula says it, one key and one report at a time. */
#define DEFINE_BARE_ADD(bits)                                                                \
    API void faintly_bare_add_##bits(int##bits##_t *tables, const uint32_t *index,           \
                                     const int32_t *weight, int64_t count)                   \
    {                                                                                        \
        for (int64_t i = 0; i < count; i++)                                                  \
            tables[index[i]] += weight[i];                                                   \
    }

DEFINE_BARE_ADD(32)
DEFINE_BARE_ADD(64)

API void faintly_paper_loop(const uint64_t *seeds, const int64_t *values, int64_t bins,
                            int64_t reports, const uint64_t *ids, int64_t count, int64_t *totals)
{
    for (int64_t c = 0; c < count; c++)
        for (int64_t i = 0; i < reports; i++)
            totals[c] += signed_value(half_sip(seeds[i], ids[c], CLOSING(TAG_BIN)),
                                      half_sip(seeds[i], ids[c], CLOSING(TAG_SIGN)),
                                      values + i * bins, bins);
}
