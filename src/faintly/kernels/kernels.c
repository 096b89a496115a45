/* The hot loops. reference.py says what each one means; tests hold the two equal.
 *
 * Callers have checked every size and index (compiled.py). Integers wrap nowhere that the
 * reference would not: all sums are 64-bit. No Python headers: loaded through ctypes,
 * which releases the interpreter lock around each call. */

#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
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

API void faintly_scatter_add(int64_t *tables, int64_t size, const int64_t *table,
                             const int64_t *index, const int64_t *weight, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        tables[table[i] * size + index[i]] += weight[i];
}

API void faintly_walsh_hadamard(int64_t *rows, int64_t count, int64_t size)
{
    for (int64_t row = 0; row < count; row++) {
        int64_t *f = rows + row * size;
        for (int64_t half = 1; half < size; half *= 2)
            for (int64_t start = 0; start < size; start += 2 * half)
                for (int64_t i = start; i < start + half; i++) {
                    int64_t a = f[i], b = f[i + half];
                    f[i] = a + b;
                    f[i + half] = a - b;
                }
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

/* HalfSipHash-1-3 under `key` of the nine bytes id, tag. */
static inline uint32_t half_sip(uint64_t key, uint64_t id, uint32_t tag)
{
    const uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    const uint32_t words[3] = {(uint32_t)id, (uint32_t)(id >> 32), (9u << 24) | tag};
    uint32_t v0 = k0, v1 = k1, v2 = k0 ^ 0x6c796765u, v3 = k1 ^ 0x74656462u;
    for (int i = 0; i < 3; i++) {
        v3 ^= words[i];
        SIP_ROUND;
        v0 ^= words[i];
    }
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
            uint32_t where = bins > 1 ? half_sip(seeds[i], ids[c], TAG_BIN) : 0;
            total += signed_value(where, half_sip(seeds[i], ids[c], TAG_SIGN),
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
static void blake2s_keyed(uint32_t h[8], uint64_t seed)
{
    uint32_t block[16] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    memcpy(h, BLAKE_IV, sizeof BLAKE_IV);
    h[0] ^= 0x01010000u ^ (8u << 8) ^ 8u; /* sequential mode, 8-byte key, 8-byte digest */
    blake2s_compress(h, block, 64, 0);
}

static uint32_t blake2s_mix(const uint32_t keyed[8], uint64_t id, uint32_t tag)
{
    uint32_t h[8], block[16] = {(uint32_t)id, (uint32_t)(id >> 32), tag};
    memcpy(h, keyed, sizeof h);
    blake2s_compress(h, block, 64 + 9, 0xffffffffu);
    return h[0];
}

API void faintly_read_blake2s(const uint64_t *seeds, const int64_t *values, int64_t bins,
                              int64_t reports, const uint64_t *ids, int64_t count,
                              int64_t *totals)
{
    for (int64_t i = 0; i < reports; i++) {
        uint32_t keyed[8];
        blake2s_keyed(keyed, seeds[i]);
        for (int64_t c = 0; c < count; c++) {
            uint32_t where = bins > 1 ? blake2s_mix(keyed, ids[c], TAG_BIN) : 0;
            totals[c] += signed_value(where, blake2s_mix(keyed, ids[c], TAG_SIGN),
                                      values + i * bins, bins);
        }
    }
}
