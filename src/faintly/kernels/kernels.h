/* What the C files of this folder share: compiler macros, bits, hash functions, public maps.
 *
 *   tables.c          sums in tables, their transform, reading them and their cells
 *   hashing.c         ids, items and strings to words and codes
 *   linear_systems.c  equations over GF(2) and small fields
 *   fields.c          reading solutions; polynomials
 *   projection.c      groups and slots of projection choice
 *   bins.c            places of codes, best slots and tables of projection choice's bins
 *   orthogonal.c      cells orthogonal to the rows of keys: counting them, folding tables
 *   binning.c         rounding, signed bins, their cells and reading them
 *   records.c         packing and shuffling reports
 *
 * The module of the same name beside each file says what its functions mean; tests compare the
 * two. All files make one library, loaded through ctypes, which releases the interpreter lock
 * around each call: no Python headers. `native.py` lists every function marked API.
 *
 * Callers have checked every size and index (arguments.py). Integers wrap only where the
 * reference wraps. Loops run over blocks that stay in the L1 cache and over lanes that
 * the compiler turns into vectors; callers run threads over slices (threads.py). Shared
 * functions are inline, so that every loop is compiled whole for each instruction set. */

#ifndef FAINTLY_KERNELS_H
#define FAINTLY_KERNELS_H

#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__)
#error "needs the vector extensions of GCC or clang; without them faintly runs on numpy"
#endif
#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

/* HOT functions are compiled for several instruction sets, and the loader picks the best one
 * that the machine has. Elsewhere the baseline is used; on ARM it already has vectors. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && \
    !defined(FAINTLY_ONE_TARGET) /* clang 14 does not export clones under their own names */
#define CLONES 1
#if __GNUC__ >= 12
#define WIDEST "arch=x86-64-v4"
#else
#define WIDEST "avx512f"
#endif
#define HOT __attribute__((target_clones("default", "avx2", WIDEST)))
#else
#define CLONES 0
#define HOT
#endif

#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address, 1)
#define ONES(word) (uint64_t)__builtin_popcountll(word)
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16") /* else arrays of vectors go through memory */
#endif

/* Blocks are processed together, and sized to stay in the L1 cache. */
#define REPORT_BLOCK 256 /* reports kept in cache while looping over ids */
#define ITEM_BLOCK 256   /* items hashed together */
#define CLIENT_BLOCK 64  /* seeds hashed together */
#define AHEAD 24         /* cells or rows prefetched: about what a core can have in flight */
#define LINE 64          /* bytes of a cache line */
#define MOST_FIELD_BITS 8 /* of a symbol: it fits a byte */

/* Tags keep the uses of a hash apart; primitives/hashing.py names the same letters. */
#define TAG_BIN ((uint32_t)'b')
#define TAG_SIGN ((uint32_t)'s')
#define TAG_EQUATION ((uint32_t)'a')
#define TAG_COIN ((uint32_t)'c')
#define TAG_POINT ((uint32_t)'g')
#define TAG_SYMBOL ((uint32_t)'y')
#define TAG_WIDE ((uint32_t)'w')
#define TAG_PROJECTION ((uint32_t)'p')
#define TAG_GROUP ((uint32_t)'q')
#define TAG_ROW ((uint32_t)'r')
#define TAG_MATRIX ((uint32_t)'A')
#define TAG_MAP ((uint32_t)'j')
#define TAG_MASK ((uint32_t)'m')
#define TAG_FOLD ((uint32_t)'f')

static inline uint32_t rotl(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }
static inline uint32_t rotr(uint32_t x, int by) { return (x >> by) | (x << (32 - by)); }

static inline uint32_t parity32(uint32_t x)
{
    x ^= x >> 16;
    x ^= x >> 8;
    x ^= x >> 4;
    return (0x6996u >> (x & 15)) & 1;
}

/* The same by shifts alone, which every instruction set can vectorise. */
INLINE uint32_t parity_lane(uint32_t x)
{
    x ^= x >> 16;
    x ^= x >> 8;
    x ^= x >> 4;
    x ^= x >> 2;
    x ^= x >> 1;
    return x & 1;
}

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Byte strings and records are little-endian, whatever the machine is. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LITTLE32(x) __builtin_bswap32(x)
#define LITTLE64(x) __builtin_bswap64(x)
#else
#define LITTLE32(x) (x)
#define LITTLE64(x) (x)
#endif

/* Sixteen words at once, in one vector register or several. */
typedef uint32_t lanes __attribute__((vector_size(64)));
#define STEP 16

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

/* HalfSipHash-1-3 under `key` of an id and the closing word, in two parts: words that
 * differ in the closing word alone share the first. */
struct sip {
    uint32_t v0, v1, v2, v3;
};

INLINE struct sip sip_open(uint64_t key, uint64_t id)
{
    const uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    const uint32_t m0 = (uint32_t)id, m1 = (uint32_t)(id >> 32);
    uint32_t v0 = k0, v1 = k1, v2 = k0 ^ 0x6c796765u, v3 = k1 ^ 0x74656462u;
    v3 ^= m0; SIP_ROUND; v0 ^= m0;
    v3 ^= m1; SIP_ROUND; v0 ^= m1;
    return (struct sip){v0, v1, v2, v3};
}

INLINE uint32_t sip_close(struct sip opened, uint32_t closing)
{
    uint32_t v0 = opened.v0, v1 = opened.v1, v2 = opened.v2, v3 = opened.v3;
    v3 ^= closing; SIP_ROUND; v0 ^= closing;
    v2 ^= 0xff;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    return v1 ^ v3;
}

INLINE uint32_t half_sip(uint64_t key, uint64_t id, uint32_t closing)
{
    return sip_close(sip_open(key, id), closing);
}

/* A hash as an integer below `count`: the upper half of their product. */
INLINE uint32_t scale_to(uint32_t hash, uint32_t count)
{
    return (uint32_t)(((uint64_t)hash * count) >> 32);
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

/* The ten rounds on v[16] with the message m[16]: words, or vectors of them. */
#define BLAKE_ROTR(x, by) ((x) >> (by) | (x) << (32 - (by)))
#define BLAKE_G(a, b, c, d, x, y)                                                            \
    do {                                                                                     \
        v[a] += v[b] + (x); v[d] ^= v[a]; v[d] = BLAKE_ROTR(v[d], 16);                       \
        v[c] += v[d];       v[b] ^= v[c]; v[b] = BLAKE_ROTR(v[b], 12);                       \
        v[a] += v[b] + (y); v[d] ^= v[a]; v[d] = BLAKE_ROTR(v[d], 8);                        \
        v[c] += v[d];       v[b] ^= v[c]; v[b] = BLAKE_ROTR(v[b], 7);                        \
    } while (0)
#define BLAKE_ROUNDS                                                                         \
    for (int round = 0; round < 10; round++) {                                               \
        const uint8_t *s = BLAKE_SIGMA[round];                                               \
        BLAKE_G(0, 4, 8, 12, m[s[0]], m[s[1]]);                                              \
        BLAKE_G(1, 5, 9, 13, m[s[2]], m[s[3]]);                                              \
        BLAKE_G(2, 6, 10, 14, m[s[4]], m[s[5]]);                                             \
        BLAKE_G(3, 7, 11, 15, m[s[6]], m[s[7]]);                                             \
        BLAKE_G(0, 5, 10, 15, m[s[8]], m[s[9]]);                                             \
        BLAKE_G(1, 6, 11, 12, m[s[10]], m[s[11]]);                                           \
        BLAKE_G(2, 7, 8, 13, m[s[12]], m[s[13]]);                                            \
        BLAKE_G(3, 4, 9, 14, m[s[14]], m[s[15]]);                                            \
    }

static inline void blake2s_compress(uint32_t h[8], const uint32_t m[16], uint32_t bytes,
                                    uint32_t last)
{
    uint32_t v[16];
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = BLAKE_IV[i];
    }
    v[12] ^= bytes;
    v[14] ^= last;
    BLAKE_ROUNDS
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

/* The state after the key block: shared by every id that is hashed under one seed. */
static inline void blake2s_keyed(uint32_t h[8], uint64_t seed, uint32_t digest_bytes)
{
    uint32_t block[16] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    memcpy(h, BLAKE_IV, sizeof BLAKE_IV);
    h[0] ^= 0x01010000u ^ (8u << 8) ^ digest_bytes; /* sequential mode, 8-byte key */
    blake2s_compress(h, block, 64, 0);
}

/* BLAKE2s of an id and the closing word, whose top byte is the length as in HalfSipHash. */
static inline void blake2s(const uint32_t keyed[8], uint64_t id, uint32_t closing, uint32_t h[8])
{
    const uint32_t block[16] = {(uint32_t)id, (uint32_t)(id >> 32), closing & 0xffffffu};
    memcpy(h, keyed, 8 * sizeof *h);
    blake2s_compress(h, block, 64 + (closing >> 24), 0xffffffffu);
}

static inline uint32_t blake2s_first(const uint32_t keyed[8], uint64_t id, uint32_t closing)
{
    uint32_t h[8];
    blake2s(keyed, id, closing, h);
    return h[0];
}

/* The public map that each seed uses. */
INLINE void draw_maps(const uint64_t *seeds, int64_t count, int64_t maps, uint32_t *map)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t hash = half_sip(seeds[i], 0, CLOSING(TAG_MAP));
        map[i] = scale_to(hash, (uint32_t)maps);
    }
}

#define MAP_ROUNDS 4

/* The public maps of a plan; `fold_key` is null where codes are bijective. */
struct public_maps {
    const uint32_t *factor, *offset;
    const uint64_t *mask_key, *fold_key;
    uint32_t low, shift;
};

INLINE struct public_maps maps_of(const uint32_t *factor, const uint32_t *offset,
                                  const uint64_t *mask_key, const uint64_t *fold_key,
                                  int64_t bijective, int64_t bits)
{
    return (struct public_maps){factor, offset, mask_key, bijective ? NULL : fold_key,
                                (uint32_t)(((uint64_t)1 << bits) - 1),
                                (uint32_t)((bits + 1) / 2)};
}

INLINE void code_items(const struct public_maps *maps, uint32_t j, const uint64_t *ids,
                       int64_t count, uint32_t *codes)
{
    const uint32_t *factor = maps->factor + j * MAP_ROUNDS;
    const uint32_t *offset = maps->offset + j * MAP_ROUNDS;
    const uint32_t low = maps->low, shift = maps->shift;
    if (maps->fold_key) {
        for (int64_t i = 0; i < count; i++)
            codes[i] = half_sip(maps->fold_key[j], ids[i], CLOSING(TAG_FOLD)) & low;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint32_t code = (uint32_t)ids[i];
        for (int round = 0; round < MAP_ROUNDS; round++) {
            code = (code * factor[round] + offset[round]) & low;
            code ^= code >> shift;
        }
        codes[i] = code;
    }
}

#endif
