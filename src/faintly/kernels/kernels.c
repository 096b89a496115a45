/* The hot loops. reference*.py say what each one means; tests hold the two equal.
 *
 *   tables      measure_cells, scatter_add, weigh, walsh_hadamard, join, map_codes, gather
 *   linear      read_cells
 *   hashing     HalfSipHash: read_prf, hash_ids, hash_each, hash_words;
 *               BLAKE2s: read_blake2s, hash_wide
 *   comparison  bare_add, paper_loop: what `faintly bench` measures the others against
 *   GF(2)       solve_gf2, read_parity
 *   fields      solve_field, read_inner; over GF(2^bits) solve_words, read_polynomial,
 *               read_points, add_points
 *   projection  read_slots, project_prf, project_linear
 *   clients     round_values, bin_prf, bin_blake2s, bin_linear, code_items, pick_maps,
 *               hash_words_blake2s, hash_keys
 *   reports     linear_cells, sum_squares, pack_records, unpack_records, shuffle_rows
 *
 * Callers have checked every size and index (arguments.py). Integers wrap nowhere that the
 * reference would not. Loops run over blocks that stay in the first cache and over lanes that
 * the compiler turns into vectors; threads are the callers', over slices (threads.py).
 * No Python headers: loaded through ctypes, which releases the interpreter lock around each
 * call. */

#include <stdint.h>
#include <stdlib.h>
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
 * that the machine has. Elsewhere the baseline serves: on ARM that already has vectors. */
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
#define UNROLL _Pragma("GCC unroll 16") /* or vectors in arrays go through memory */
#endif

/* Which code runs here: 0 baseline, 1 AVX2, 2 AVX-512, 3 NEON. */
API int64_t faintly_instructions(void)
{
#if CLONES
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? 2
           : __builtin_cpu_supports("avx2") ? 1 : 0;
#elif defined(__AVX512F__)
    return 2;
#elif defined(__AVX2__)
    return 1;
#elif defined(__ARM_NEON)
    return 3;
#else
    return 0;
#endif
}

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

/* The same by shifts alone, which every instruction set has for vectors. */
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

/* What the callers check before they touch a table: the largest index, the sum of |weights|. */
HOT API void faintly_measure_cells(const uint32_t *index, const int32_t *weight, int64_t count,
                                   int64_t *largest_and_mass)
{
    uint32_t largest = 0;
    uint64_t mass = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t w = (uint32_t)weight[i];
        largest = index[i] > largest ? index[i] : largest;
        mass += weight[i] < 0 ? 0u - w : w;
    }
    largest_and_mass[0] = largest;
    largest_and_mass[1] = (int64_t)mass;
}

#define CACHED (4 << 20) /* bytes of a table: below, fetching ahead costs more than it saves */
#define AHEAD 24         /* cells: what a core can have under way to memory at once */
#define MASS_BLOCK 4096  /* entries that can be summed in their own type if 12 bits are free */

/* Rows of 32- or 64-bit integers; the caller keeps every sum below what the type holds. */
#define DEFINE_TABLES(bits)                                                                  \
    API void faintly_scatter_add_##bits(int##bits##_t *tables, int64_t size,                 \
                                        const uint32_t *index, const int32_t *weight,        \
                                        int64_t count)                                       \
    {                                                                                        \
        int64_t i = 0;                                                                       \
        for (; size * (bits / 8) > CACHED && i < count - AHEAD; i++) {                       \
            PREFETCH(tables + index[i + AHEAD]);                                             \
            tables[index[i]] += weight[i];                                                   \
        }                                                                                    \
        for (; i < count; i++)                                                               \
            tables[index[i]] += weight[i];                                                   \
    }                                                                                        \
    INLINE uint##bits##_t magnitude_##bits(int##bits##_t x)                                  \
    {                                                                                        \
        return x < 0 ? (uint##bits##_t)0 - (uint##bits##_t)x : (uint##bits##_t)x;            \
    }                                                                                        \
    /* The largest sum of |entries| of a row, as its upper bits and its lower 32; then for   \
     * each block whether it is light: half the bits hold whatever its entries add up to. */ \
    HOT API void faintly_weigh_##bits(const int##bits##_t *rows, int64_t count, int64_t size,\
                                      int64_t *found)                                        \
    {                                                                                        \
        int64_t *light = found + 2;                                                          \
        found[0] = found[1] = 0;                                                             \
        for (int64_t row = 0; row < count; row++) {                                          \
            const int##bits##_t *f = rows + row * size;                                      \
            uint64_t upper = 0, lower = 0;                                                   \
            for (int64_t start = 0; start < size; start += MASS_BLOCK) {                     \
                const int64_t end = least(size, start + MASS_BLOCK);                         \
                uint##bits##_t any = 0, sum = 0;                                             \
                for (int64_t i = start; i < end; i++) {                                      \
                    any |= magnitude_##bits(f[i]);                                           \
                    sum += magnitude_##bits(f[i]);                                           \
                }                                                                            \
                lower += (uint64_t)sum & 0xffffffffu;                                        \
                upper += (uint64_t)sum >> 32;                                                \
                *light++ = !(any >> (bits - 12)) && !(sum >> (bits / 2 - 1));                \
                if (!(any >> (bits - 12)))                                                   \
                    continue;                                                                \
                lower -= (uint64_t)sum & 0xffffffffu; /* it may have wrapped: once more */   \
                upper -= (uint64_t)sum >> 32;                                                \
                for (int64_t i = start; i < end; i++) {                                      \
                    lower += (uint64_t)magnitude_##bits(f[i]) & 0xffffffffu;                 \
                    upper += (uint64_t)magnitude_##bits(f[i]) >> 32;                         \
                }                                                                            \
            }                                                                                \
            upper += lower >> 32;                                                            \
            lower &= 0xffffffffu;                                                            \
            if ((int64_t)upper > found[0] ||                                                 \
                ((int64_t)upper == found[0] && (int64_t)lower > found[1])) {                 \
                found[0] = (int64_t)upper;                                                   \
                found[1] = (int64_t)lower;                                                   \
            }                                                                                \
        }                                                                                    \
    }                                                                                        \
    /* One butterfly at a time: for what is shorter than a vector, or without vectors. */    \
    static void plain_rows_##bits(int##bits##_t *rows, int64_t count, int64_t size)          \
    {                                                                                        \
        for (int64_t half = 1; half < size; half *= 2)                                       \
            for (int64_t start = 0; start < count * size; start += 2 * half)                 \
                for (int64_t i = start; i < start + half; i++) {                             \
                    const int##bits##_t a = rows[i], b = rows[i + half];                     \
                    rows[i] = a + b;                                                         \
                    rows[i + half] = a - b;                                                  \
                }                                                                            \
    }

DEFINE_TABLES(32)
DEFINE_TABLES(64)

/* The transform on vectors of `bytes`. Levels combine entries 1, 2, 4, ... apart: those inside
 * a vector by shuffles, in the same visit as up to four levels between neighbouring vectors;
 * all others three at a time, so that a row is read and written once per three levels. A row
 * is cut into eight until it fits, and each part finished before the next: so most visits find
 * their part in a cache, whatever its size. Eight and no more, but for short parts: entries far
 * apart by a power of two share the places of a cache, which has about eight for them. */
#define MEET(a, b)                                                                           \
    do {                                                                                     \
        const __typeof__(a) sum = (a) + (b);                                                 \
        (b) = (a) - (b);                                                                     \
        (a) = sum;                                                                           \
    } while (0)
#define MEET4(x) MEET((x)[0], (x)[1]); MEET((x)[2], (x)[3]); MEET((x)[0], (x)[2]);           \
                 MEET((x)[1], (x)[3])
#define MEET8(x) MEET4(x); MEET4((x) + 4); MEET((x)[0], (x)[4]); MEET((x)[1], (x)[5]);       \
                 MEET((x)[2], (x)[6]); MEET((x)[3], (x)[7])
#define MEET16(x) MEET8(x); MEET8((x) + 8); MEET((x)[0], (x)[8]); MEET((x)[1], (x)[9]);      \
                  MEET((x)[2], (x)[10]); MEET((x)[3], (x)[11]); MEET((x)[4], (x)[12]);       \
                  MEET((x)[5], (x)[13]); MEET((x)[6], (x)[14]); MEET((x)[7], (x)[15])

static const uint32_t LANE_32[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static const uint64_t LANE_64[4] = {0, 1, 2, 3};
#define LANES(x) ((int64_t)(sizeof(x) / sizeof((x)[0])))

#if defined(__clang__)
#define XOR_LANES(x, by)                                                                     \
    ({                                                                                       \
        vector moved = (x);                                                                  \
        for (int64_t l = 0; l < LANES(x); l++)                                               \
            moved[l] = (x)[(l ^ (by)) & (LANES(x) - 1)];                                     \
        moved;                                                                               \
    })
#else
#define XOR_LANES(x, by) __builtin_shuffle(x, lane ^ (by))
#endif

#define WITHIN(x, by)                                                                        \
    if ((by) < LANES(lane) && (by) < size)                                                   \
        (x) = (__typeof__(x))XOR_LANES((vector)(x), by) +                                    \
              ((x) ^ (__typeof__(x))((lane & (by)) != 0));

#define DEFINE_TRANSFORM(bits, kind, bytes, target)                                          \
    /* Takes `vectors` (a constant) vectors that lie `stride` apart through the levels       \
     * between them, and before through those inside a vector that rows of `size` have.      \
     * There ~x stands for -x, which saves an instruction of four: every vector is then off  \
     * by what zeros become, and the levels between them gather all that in the first. */    \
    target INLINE void visit_##bits##_##kind(int##bits##_t *f, int64_t stride,               \
                                             const int vectors, int64_t size)                \
    {                                                                                        \
        typedef uint##bits##_t vector __attribute__((vector_size(bytes)));                   \
        typedef vector memory __attribute__((aligned(bits / 8), may_alias));                 \
        const vector lane = *(const memory *)LANE_##bits;                                    \
        vector v[16], off = lane ^ lane;                                                     \
        WITHIN(off, 1) WITHIN(off, 2) WITHIN(off, 4)                                         \
        UNROLL for (int i = 0; i < vectors; i++) {                                           \
            v[i] = *(const memory *)(f + i * stride);                                        \
            WITHIN(v[i], 1) WITHIN(v[i], 2) WITHIN(v[i], 4)                                  \
        }                                                                                    \
        if (vectors == 16) { MEET16(v); }                                                    \
        if (vectors == 8) { MEET8(v); }                                                      \
        if (vectors == 4) { MEET4(v); }                                                      \
        if (vectors == 2) { MEET(v[0], v[1]); }                                              \
        v[0] -= off * (uint##bits##_t)vectors;                                               \
        UNROLL for (int i = 0; i < vectors; i++)                                             \
            *(memory *)(f + i * stride) = v[i];                                              \
    }

/* A light block on integers of half the bits, so twice as many in a vector: two neighbouring
 * vectors meet and share the lanes of one, and are taken apart at the end. */
#define DEFINE_LIGHT(bits, half, kind, bytes, target)                                        \
    enum { LIGHT_##bits##_##kind = 16 * 16 * 2 * bytes / (bits / 8) };                       \
    _Static_assert(LIGHT_##bits##_##kind <= MASS_BLOCK, "a part of what was weighed");       \
    target static void light_##bits##_##kind(int##bits##_t *f)                               \
    {                                                                                        \
        typedef uint##bits##_t vector __attribute__((vector_size(bytes)));                   \
        typedef int##bits##_t signs __attribute__((vector_size(bytes)));                     \
        typedef uint##half##_t narrow __attribute__((vector_size(bytes)));                   \
        typedef vector memory __attribute__((aligned(bits / 8), may_alias));                 \
        const int64_t size = bytes / (bits / 8);                                             \
        const vector lane = *(const memory *)LANE_##bits;                                    \
        narrow tile[16][16], off = (narrow)(lane ^ lane);                                    \
        WITHIN(off, 1) WITHIN(off, 2) WITHIN(off, 4)                                         \
        for (int row = 0; row < 16; row++) {                                                 \
            narrow v[16];                                                                    \
            UNROLL for (int i = 0; i < 16; i++) {                                            \
                const memory *from = (const memory *)(f + (16 * row + i) * 2 * size);        \
                vector a = from[0], b = from[1];                                             \
                MEET(a, b);                                                                  \
                v[i] = (narrow)((a & (((uint##bits##_t)1 << half) - 1)) | (b << half));      \
                WITHIN(v[i], 1) WITHIN(v[i], 2) WITHIN(v[i], 4)                              \
            }                                                                                \
            MEET16(v);                                                                       \
            v[0] -= off * 16;                                                                \
            UNROLL for (int i = 0; i < 16; i++)                                              \
                tile[row][i] = v[i];                                                         \
        }                                                                                    \
        for (int i = 0; i < 16; i++) {                                                       \
            narrow v[16];                                                                    \
            UNROLL for (int row = 0; row < 16; row++)                                        \
                v[row] = tile[row][i];                                                       \
            MEET16(v);                                                                       \
            UNROLL for (int row = 0; row < 16; row++) {                                      \
                memory *to = (memory *)(f + (16 * row + i) * 2 * size);                      \
                to[0] = (vector)((signs)((vector)v[row] << half) >> half);                   \
                to[1] = (vector)((signs)v[row] >> half);                                     \
            }                                                                                \
        }                                                                                    \
    }

/* Vectors that straddle two lines of the cache cost double, and the arrays of numpy start
 * anywhere: columns are taken in small vectors until the large ones are in line. */
#define DEFINE_ROWS(bits, kind, bytes, target)                                               \
    /* The levels between `parts` (a constant) parts of a row, for some of their columns. */ \
    target INLINE void columns_##bits##_##kind(int##bits##_t *row, const int parts,          \
                                               int64_t part, int64_t from, int64_t to)       \
    {                                                                                        \
        const int64_t lanes = bytes / (bits / 8), few = 16 / (bits / 8);                     \
        int64_t i = from;                                                                    \
        for (; !((uintptr_t)row % 16) && (uintptr_t)(row + i) % bytes && i < to; i += few)   \
            visit_##bits##_few(row + i, part, parts, 1);                                     \
        for (; i + lanes <= to; i += lanes)                                                  \
            visit_##bits##_##kind(row + i, part, parts, 1);                                  \
        for (; i < to; i += few)                                                             \
            visit_##bits##_few(row + i, part, parts, 1);                                     \
    }                                                                                        \
    target static void join_##bits##_##kind(int##bits##_t *row, int64_t parts, int64_t part, \
                                            int64_t from, int64_t to)                        \
    {                                                                                        \
        if (parts == 16)                                                                     \
            columns_##bits##_##kind(row, 16, part, from, to);                                \
        if (parts == 8)                                                                      \
            columns_##bits##_##kind(row, 8, part, from, to);                                 \
        if (parts == 4)                                                                      \
            columns_##bits##_##kind(row, 4, part, from, to);                                 \
        if (parts == 2)                                                                      \
            columns_##bits##_##kind(row, 2, part, from, to);                                 \
    }                                                                                        \
    target static void rows_##bits##_##kind(int##bits##_t *rows, int64_t from, int64_t to,   \
                                            int64_t size, const int64_t *light)              \
    {                                                                                        \
        const int64_t lanes = bytes / (bits / 8), small = LIGHT_##bits##_##kind;             \
        int64_t i = from;                                                                    \
        for (; size > 16 * lanes && i < to; i += size) {                                     \
            if (size == small && light[i / MASS_BLOCK]) {                                    \
                light_##bits##_##kind(rows + i);                                             \
                continue;                                                                    \
            }                                                                                \
            const int64_t parts = size > small ? least(8, size / small)                      \
                                  : size == 256 * lanes ? 16 : 8;                            \
            rows_##bits##_##kind(rows, i, i + size, size / parts, light);                    \
            join_##bits##_##kind(rows + i, parts, size / parts, 0, size / parts);            \
        }                                                                                    \
        for (; size == 16 * lanes && i < to; i += size)                                      \
            visit_##bits##_##kind(rows + i, lanes, 16, lanes);                               \
        for (; size == 8 * lanes && i < to; i += size)                                       \
            visit_##bits##_##kind(rows + i, lanes, 8, lanes);                                \
        for (; size == 4 * lanes && i < to; i += size)                                       \
            visit_##bits##_##kind(rows + i, lanes, 4, lanes);                                \
        for (; size == 2 * lanes && i < to; i += size)                                       \
            visit_##bits##_##kind(rows + i, lanes, 2, lanes);                                \
        for (; size == lanes && i < to; i += size)                                           \
            visit_##bits##_##kind(rows + i, lanes, 1, lanes);                                \
        for (; i + lanes <= to; i += lanes) /* several short rows in one vector */           \
            visit_##bits##_##kind(rows + i, lanes, 1, size);                                 \
        plain_rows_##bits(rows + i, (to - i) / size, size);                                  \
    }

DEFINE_TRANSFORM(32, few, 16, )
DEFINE_TRANSFORM(64, few, 16, )
#define DEFINE_MANY(kind, bytes, target)                                                     \
    DEFINE_TRANSFORM(32, kind, bytes, target)                                                \
    DEFINE_TRANSFORM(64, kind, bytes, target)                                                \
    DEFINE_LIGHT(32, 16, kind, bytes, target)                                                \
    DEFINE_LIGHT(64, 32, kind, bytes, target)                                                \
    DEFINE_ROWS(32, kind, bytes, target)                                                     \
    DEFINE_ROWS(64, kind, bytes, target)
/* AVX-512 brings twice as many vectors, but no wider ones here: each vector of 64 bytes would
 * have a level more inside, and those cost four times as much as levels between vectors. */
#if CLONES
DEFINE_MANY(baseline, 16, )
DEFINE_MANY(avx2, 32, __attribute__((target("avx2"))))
DEFINE_MANY(avx512, 32, __attribute__((target("avx512f,avx512vl,avx512bw"))))
#define CHOOSE(what, bits, ...)                                                              \
    (faintly_instructions() == 2   ? what##_##bits##_avx512(__VA_ARGS__)                     \
     : faintly_instructions() == 1 ? what##_##bits##_avx2(__VA_ARGS__)                       \
                                   : what##_##bits##_baseline(__VA_ARGS__))
#else
#if defined(__AVX2__)
DEFINE_MANY(only, 32, )
#else
DEFINE_MANY(only, 16, )
#endif
#define CHOOSE(what, bits, ...) what##_##bits##_only(__VA_ARGS__)
#endif

/* Threads share a long row: each transforms some eighths, then joins some columns of all. */
#define DEFINE_WALSH_HADAMARD(bits)                                                          \
    /* The rows from one entry to another of a table, as faintly_weigh found it. */          \
    API void faintly_walsh_hadamard_##bits(int##bits##_t *rows, int64_t from, int64_t to,    \
                                           int64_t size, const int64_t *found)               \
    {                                                                                        \
        CHOOSE(rows, bits, rows, from, to, size, found + 2);                                 \
    }                                                                                        \
    API void faintly_join_##bits(int##bits##_t *row, int64_t part, int64_t from, int64_t to) \
    {                                                                                        \
        CHOOSE(join, bits, row, 8, part, from, to);                                          \
    }

DEFINE_WALSH_HADAMARD(32)
DEFINE_WALSH_HADAMARD(64)

#define CODE_BLOCK 512 /* codes between two rounds, so that each round is a loop over lanes */

HOT API void faintly_map_codes(const uint64_t *ids, int64_t count, const uint32_t *factor,
                               const uint32_t *offset, int64_t rounds, int64_t bits,
                               uint32_t *codes)
{
    const uint32_t low = (uint32_t)(((uint64_t)1 << bits) - 1);
    const int shift = (int)((bits + 1) / 2);
    for (int64_t start = 0; start < count; start += CODE_BLOCK) {
        const int64_t size = least(count - start, CODE_BLOCK);
        uint32_t *code = codes + start;
        for (int64_t i = 0; i < size; i++)
            code[i] = (uint32_t)ids[start + i];
        for (int64_t round = 0; round < rounds; round++) {
            const uint32_t times = factor[round], plus = offset[round];
            for (int64_t i = 0; i < size; i++) {
                const uint32_t mixed = (code[i] * times + plus) & low;
                code[i] = mixed ^ mixed >> shift;
            }
        }
    }
}

/* Parities of many cells at once. A block of cells is turned into planes: plane b holds bit b
 * of every index, one bit per cell. The parity of <index, code> is then the XOR of the planes
 * that the code has, for 64 cells per word; the XORs of every five planes are tabulated, so
 * that a code costs four or seven look-ups. Signs are a plane of their own, |weights| a plane
 * for each of their bits, and Σ weight·(-1)^parity = Σ |weight| - 2·Σ |weight| where odd. */
#define PLANE_LANES 32 /* words of 32 cells each: 1024 cells, whose tables fit the first cache */
#define PLANE_WORDS (PLANE_LANES / 2)
#define WHOLE _Pragma("GCC unroll 1") /* loops that are unrolled early never become vectors */
#define GROUP 5
#define GROUPS 7

struct planes {
    uint32_t any; /* |weights| ORed: what planes there are */
    uint64_t tables[GROUPS][1 << GROUP][PLANE_WORDS];
    uint64_t weight[32][PLANE_WORDS];
};

/* Which cell becomes which bit is free as long as all planes agree: bit r of lane l is cell
 * 32·r + l, so that a 32 x 32 transposition in every lane needs no move between lanes. */
INLINE void transpose(uint32_t (*rows)[PLANE_LANES])
{
    uint32_t low = 0x0000ffffu;
    for (int half = 16; half; half /= 2, low ^= low << half)
        for (int r = 0; r < 32; r = (r + half + 1) & ~half)
            for (int l = 0; l < PLANE_LANES; l++) {
                const uint32_t swap = ((rows[r][l] >> half) ^ rows[r + half][l]) & low;
                rows[r + half][l] ^= swap;
                rows[r][l] ^= swap << half;
            }
}

INLINE void slice_weights(struct planes *planes, const int32_t *weight, int64_t cells,
                          uint32_t *minus, int64_t *mass)
{
    uint32_t rows[32][PLANE_LANES] = {{0}}, any = 0;
    uint64_t sum = 0;
    memcpy(rows, weight, (size_t)cells * sizeof *weight);
    memset(minus, 0, PLANE_LANES * sizeof *minus);
    for (int r = 0; r < 32; r++)
        for (int l = 0; l < PLANE_LANES; l++) {
            const uint32_t word = rows[r][l], sign = word >> 31;
            minus[l] |= sign << r;
            rows[r][l] = (word ^ (0u - sign)) + sign;
            any |= rows[r][l];
            sum += rows[r][l];
        }
    *mass += (int64_t)sum;
    planes->any = any;
    if (any > 1)
        transpose(rows);
    else /* all are 0 or 1: one plane, which is collected faster than transposed */
        for (int r = 1; r < 32; r++)
            for (int l = 0; l < PLANE_LANES; l++)
                rows[0][l] |= rows[r][l] << r;
    memcpy(planes->weight, rows, sizeof rows);
}

INLINE void slice_index(struct planes *planes, const uint32_t *index, int64_t cells,
                        const uint32_t *minus, int groups)
{
    uint32_t rows[GROUPS * GROUP][PLANE_LANES] = {{0}};
    memcpy(rows, index, (size_t)cells * sizeof *index);
    transpose(rows);
    for (int g = 0; g < groups; g++) {
        uint64_t(*table)[PLANE_WORDS] = planes->tables[g], plane[PLANE_WORDS];
        memset(table[0], 0, sizeof *table);
        if (g == 0) /* every code takes one entry of this table: it may carry the signs */
            memcpy(table[0], minus, sizeof *table);
        for (int bit = 0; bit < GROUP; bit++) {
            memcpy(plane, rows[g * GROUP + bit], sizeof plane);
            for (int known = 0; known < 1 << bit; known++)
                for (int w = 0; w < PLANE_WORDS; w++)
                    table[(1 << bit) + known][w] = table[known][w] ^ plane[w];
        }
    }
}

/* Adds -2·Σ |weight| over the odd cells of a block; `groups` is a constant, for unrolling. */
INLINE void count_odd(const struct planes *planes, const int groups, const uint32_t *codes,
                      int64_t count, int64_t *totals)
{
    for (int64_t c = 0; c < count; c++) {
        uint64_t odd[PLANE_WORDS];
        const uint32_t code = codes[c], mask = (1 << GROUP) - 1;
        const uint64_t *t[GROUPS];
        for (int g = 0; g < groups; g++)
            t[g] = planes->tables[g][code >> (g * GROUP) & mask];
        WHOLE for (int w = 0; w < PLANE_WORDS; w++)
            odd[w] = t[0][w] ^ t[1][w] ^ t[2][w] ^ t[3][w];
        WHOLE for (int w = 0; groups == GROUPS && w < PLANE_WORDS; w++)
            odd[w] ^= t[4][w] ^ t[5][w] ^ t[6][w];
        uint32_t any = planes->any; /* a loop of unknown length leaves lanes to the inner one */
        for (int m = 0; any; any >>= 1, m++) {
            uint64_t ones = 0;
            WHOLE for (int w = 0; w < PLANE_WORDS; w++)
                ones += ONES(odd[w] & planes->weight[m][w]);
            totals[c] -= (int64_t)(ones << (m + 1));
        }
    }
}

INLINE void read_cells(const uint32_t *index, const int32_t *weight, int64_t cells,
                       const uint32_t *codes, int64_t count, int64_t *totals)
{
    struct planes planes;
    uint32_t minus[PLANE_LANES], any = 0;
    int64_t mass = 0;
    for (int64_t i = 0; i < cells; i++)
        any |= index[i];
    const int groups = any >> (4 * GROUP) ? GROUPS : 4;
    for (int64_t start = 0; start < cells; start += 32 * PLANE_LANES) {
        const int64_t size = least(cells - start, 32 * PLANE_LANES);
        slice_weights(&planes, weight + start, size, minus, &mass);
        slice_index(&planes, index + start, size, minus, groups);
        if (groups == 4)
            count_odd(&planes, 4, codes, count, totals);
        else
            count_odd(&planes, GROUPS, codes, count, totals);
    }
    for (int64_t c = 0; c < count; c++)
        totals[c] += mass;
}

HOT static void read_cells_hot(const uint32_t *index, const int32_t *weight, int64_t cells,
                               const uint32_t *codes, int64_t count, int64_t *totals)
{
    read_cells(index, weight, cells, codes, count, totals);
}

#if CLONES
/* Clones cannot ask for the instruction that counts the ones of every lane. */
__attribute__((target("avx512bw,avx512vl,avx512vpopcntdq"))) static void
read_cells_counting(const uint32_t *index, const int32_t *weight, int64_t cells,
                    const uint32_t *codes, int64_t count, int64_t *totals)
{
    read_cells(index, weight, cells, codes, count, totals);
}
#define COUNTS_LANES                                                                         \
    (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&             \
     __builtin_cpu_supports("avx512vpopcntdq"))
#else
#define read_cells_counting read_cells_hot
#define COUNTS_LANES 0
#endif

API void faintly_read_cells(const uint32_t *index, const int32_t *weight, int64_t cells,
                            const uint32_t *codes, int64_t count, int64_t *totals)
{
    (COUNTS_LANES ? read_cells_counting : read_cells_hot)(index, weight, cells, codes, count,
                                                          totals);
}

#define REPORT_BLOCK 256 /* reports whose hashes and values stay near while ids pass by */

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

/* HalfSipHash-1-3 under `key` of an id and the closing word, in two parts: the first one is
 * shared by all words that are closed differently. */
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

/* A hash as an integer below `count`: the top of their product. */
INLINE uint32_t scale_to(uint32_t hash, uint32_t count)
{
    return (uint32_t)(((uint64_t)hash * count) >> 32);
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

static void blake2s_compress(uint32_t h[8], const uint32_t m[16], uint32_t bytes, uint32_t last)
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

/* Only for `faintly bench`: what others do. A bare random read-modify-write, and the loop of
 * the paper's estimator as one would write it down. */
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

/* Retrieval: equations over GF(2), hashed under tag 'a', flipped under 'c'. */
#define TAG_EQUATION ((uint32_t)'a')
#define TAG_COIN ((uint32_t)'c')

HOT API void faintly_hash_ids(uint64_t key, const uint64_t *ids, int64_t count, int64_t tag,
                              uint32_t *words)
{
    for (int64_t i = 0; i < count; i++)
        words[i] = half_sip(key, ids[i], CLOSING((uint32_t)tag));
}

/* One word for each item, under its own seed and without a number: what `mix` says. */
HOT API void faintly_hash_each(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                               int64_t tag, uint32_t *words)
{
    for (int64_t i = 0; i < items; i++)
        words[i] = half_sip(seeds[i], ids[i], CLOSING((uint32_t)tag));
}

HOT API void faintly_hash_words(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                            int64_t tag, int64_t count, uint32_t *words)
{
    if (count < 8) { /* in step over items; with more words, over the words of one */
        for (int64_t w = 0; w < count; w++)
            for (int64_t i = 0; i < items; i++)
                words[i * count + w] =
                    half_sip(seeds[i], ids[i], CLOSING_WORD((uint32_t)tag, w));
        return;
    }
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
INLINE void solve_segment(const uint64_t *keys, int64_t count, const uint32_t *rows,
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
#define SOLVE(constant)                                                                      \
    solve_segment(keys, count, rows + first * words, answers + first, constant,              \
                  solutions + s * words, basis, pivots, sides)
        switch (words) { /* a number known to the compiler lets it drop the inner loops */
        case 1: SOLVE(1); break;
        case 2: SOLVE(2); break;
        case 3: SOLVE(3); break;
        case 4: SOLVE(4); break;
        default: SOLVE(words);
        }
#undef SOLVE
    }
}

/* columns: (words, reports), so that a loop over reports runs along memory. */
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

/* row += times·known where elements are bits and addition is xor. Multiplying is linear, so the
 * products of the powers of two are enough: no look-up in the loop, which vectorises. */
INLINE void add_bits(uint8_t *restrict row, const uint8_t *restrict known, int64_t size,
                     const uint8_t *times, int bits)
{
    uint8_t power[8];
    for (int b = 0; b < bits; b++)
        power[b] = times[1 << b];
    for (int64_t j = 0; j < size; j++) {
        uint8_t sum = row[j];
        UNROLL for (int b = 0; b < bits; b++)
            sum ^= known[j] & 1 << b ? power[b] : 0;
        row[j] = sum;
    }
}

/* row -= times·known; `bits` is 0 where the order of the field is no power of two. Symbols of
 * other widths are solved as words, below. */
INLINE void subtract_row(uint8_t *row, const uint8_t *known, int64_t size, const uint8_t *times,
                         const uint8_t *differences, int64_t order, int bits)
{
    switch (bits) { /* a number known to the compiler in each case */
    case 2: add_bits(row, known, size, times, 2); return;
    case 3: add_bits(row, known, size, times, 3); return;
    case 4: add_bits(row, known, size, times, 4); return;
    }
    for (int64_t j = 0; j < size; j++)
        row[j] = differences[row[j] * order + times[known[j]]];
}

HOT API void faintly_solve_field(const int64_t *offsets, int64_t segments, uint8_t *rows,
                             uint8_t *answers, int64_t size, uint8_t *solutions,
                             const uint8_t *products, const uint8_t *differences,
                             const uint8_t *inverses, int64_t order, int64_t prime,
                             int64_t *kept, int64_t *pivots)
{
    const int bits = prime == 2 ? __builtin_ctzll((uint64_t)order) : 0;
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
                subtract_row(row, known, size, times, differences, order, bits);
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

/* Retrieval over GF(2^bits), rows as they are hashed: symbols lie in words, lowest first, and no
 * symbol in two words. Adding is xor. All multiples of a row are sums of row, x·row, x²·row, ...,
 * so with those sums in a table for each four powers, subtracting a multiple is a look-up and an
 * xor of whole words, whatever the symbol; two where symbols have more than four bits. */
#define ROW_BLOCK 16         /* words: rows are padded to whole blocks, and so have no loose ends */
#define MULTIPLES 32         /* rows of the table: two parts of 16 */
#define LINE (4 * ROW_BLOCK) /* bytes: rows begin in line with the cache */
#define MOST_FIELD_BITS 8    /* symbols fit bytes */

struct packing {
    const uint8_t *products, *inverses; /* of the field: (order, order) and (order,) */
    int64_t order, size;                /* elements of the field, symbols of a row */
    int64_t each, words;                /* symbols of a word, words of a row */
    int bits;
    uint32_t low, ones; /* of a word: its first symbol, the lowest bits of all its symbols */
    uint32_t parities[256 * MOST_FIELD_BITS]; /* [s, b]: whose parity is bit b of a product by s */
};

static void pack_field(struct packing *like)
{
    like->low = ((uint32_t)1 << like->bits) - 1;
    like->each = 32 / like->bits;
    like->words = (like->size + like->each - 1) / like->each;
    like->ones = 0;
    for (int64_t place = 0; place < like->each; place++)
        like->ones |= (uint32_t)1 << place * like->bits;
    for (int64_t s = 0; s < like->order; s++)
        for (int b = 0; b < like->bits; b++) {
            uint32_t held = 0;
            for (int u = 0; u < like->bits; u++)
                held |= (uint32_t)(like->products[s * like->order + (1 << u)] >> b & 1) << u;
            like->parities[s * like->bits + b] = held;
        }
}

/* As a vector: the compiler would unroll a loop of known length before it saw one. */
typedef uint32_t row_block __attribute__((vector_size(4 * ROW_BLOCK)));
typedef row_block row_memory __attribute__((may_alias));

INLINE void add_words(uint32_t *row, const uint32_t *other, int64_t from, int64_t stride)
{
    for (int64_t w = from; w < stride; w += ROW_BLOCK)
        *(row_memory *)(row + w) ^= *(const row_memory *)(other + w);
}

/* Row 16·p + c of the table becomes c·x^(4p) times the given row. */
INLINE void tabulate_multiples(const struct packing *like, const uint32_t *row, int64_t stride,
                               uint32_t *table)
{
    const int top = like->bits - 1;
    const uint32_t ones = like->ones;
    const uint32_t fold = top ? like->products[like->order / 2 * like->order + 2] : 0; /* x^bits */
    for (int u = 0; u < like->bits; u++) {
        uint32_t *part = table + u / 4 * 16 * stride, *power = part + (stride << u % 4);
        if (u % 4 == 0)
            memset(part, 0, (size_t)stride * sizeof *part);
        for (int64_t w = 0; w < stride; w += ROW_BLOCK) {
            const row_block last = *(const row_memory *)(row + w);
            const row_block out = last >> top & ones; /* falls out of a symbol times x */
            const row_block times = (last ^ out << top) << 1 ^ out * fold;
            *(row_memory *)(power + w) = u ? times : last;
        }
        for (int64_t c = 1; c < 1 << u % 4; c++) {
            memcpy(power + c * stride, power, (size_t)stride * sizeof *power);
            add_words(power + c * stride, part + c * stride, 0, stride);
        }
        row = power;
    }
}

/* Writes a symbol of the solution as the masks that read it: bit b of the inner product with a row
 * is the parity of the row's bits in masks[b]. */
INLINE void set_symbol(const struct packing *like, uint32_t *masks, int64_t stride, int64_t at,
                       uint32_t symbol)
{
    const int shift = (int)(at % like->each) * like->bits;
    uint32_t *mask = masks + at / like->each;
    for (int b = 0; b < like->bits; b++)
        mask[b * stride] = (mask[b * stride] & ~(like->low << shift)) |
                           like->parities[symbol * (uint32_t)like->bits + (uint32_t)b] << shift;
}

INLINE uint32_t inner_product(const struct packing *like, const uint32_t *masks, int64_t stride,
                              const uint32_t *row)
{
    uint32_t product = 0;
    for (int b = 0; b < like->bits; b++) {
        row_block some = {0};
        uint32_t folded = 0;
        for (int64_t w = 0; w < stride; w += ROW_BLOCK)
            some ^= *(const row_memory *)(row + w) & *(const row_memory *)(masks + b * stride + w);
        for (int lane = 0; lane < ROW_BLOCK; lane++)
            folded ^= some[lane];
        product |= parity32(folded) << b;
    }
    return product;
}

/* Writes the system in echelon form over `rows`, each with its answer in its last word, and where
 * its pivots are: the rows that are kept, and the places of symbols. Returns how many. */
INLINE int64_t eliminate(const struct packing *like, uint32_t *rows, int64_t count, int64_t stride,
                         uint32_t *table, int64_t *kept, int64_t *pivots)
{
    int64_t rank = 0;
    for (int64_t i = 0; i < count && rank < like->size; i++) {
        const uint32_t *row = rows + i * stride;
        int64_t w = 0;
        while (w < like->words && !row[w])
            w++;
        if (w == like->words)
            continue; /* in the span of those before */
        const int64_t place = __builtin_ctz(row[w]) / like->bits;
        const int shift = (int)place * like->bits;
        const uint8_t *over =
            like->products + like->inverses[row[w] >> shift & like->low] * like->order;
        tabulate_multiples(like, row, stride, table);
        for (int64_t j = i + 1; j < count; j++) {
            uint32_t *other = rows + j * stride;
            const uint32_t times = over[other[w] >> shift & like->low];
            const int64_t from = w / ROW_BLOCK * ROW_BLOCK; /* the row is zero before */
            add_words(other, table + (times & 15) * stride, from, stride);
            if (like->bits > 4)
                add_words(other, table + (16 + (times >> 4)) * stride, from, stride);
        }
        kept[rank] = i;
        pivots[rank++] = w * like->each + place;
    }
    return rank;
}

INLINE void solve_rows(const struct packing *like, uint32_t *rows, int64_t count, int64_t stride,
                       uint32_t *scratch, int64_t *kept, int64_t *pivots, uint32_t *solution)
{
    int64_t rank = eliminate(like, rows, count, stride, scratch, kept, pivots);
    uint32_t *masks = scratch; /* the table has done its work */
    memset(masks, 0, (size_t)(like->bits * stride) * sizeof *masks);
    for (int64_t at = 0; at < like->size; at++)
        set_symbol(like, masks, stride, at,
                   solution[at / like->each] >> at % like->each * like->bits & like->low);
    while (rank-- > 0) { /* a row holds no earlier pivot, so only its own symbol is open */
        const uint32_t *row = rows + kept[rank] * stride;
        const int64_t at = pivots[rank], w = at / like->each;
        const int shift = (int)(at % like->each) * like->bits;
        set_symbol(like, masks, stride, at, 0);
        const uint32_t left = row[stride - 1] ^ inner_product(like, masks, stride, row);
        const uint8_t inverse = like->inverses[row[w] >> shift & like->low];
        const uint32_t symbol = like->products[inverse * like->order + left];
        set_symbol(like, masks, stride, at, symbol);
        solution[w] = (solution[w] & ~(like->low << shift)) | symbol << shift;
    }
}

/* scratch: MULTIPLES rows and as many as the longest segment has, and a line to begin in. */
HOT API void faintly_solve_words(const int64_t *offsets, int64_t segments, const uint32_t *order,
                                 const uint32_t *rows, const uint8_t *answers, int64_t size,
                                 uint32_t *solutions, const uint8_t *products,
                                 const uint8_t *inverses, int64_t bits, int64_t stride,
                                 uint32_t *scratch, int64_t *kept, int64_t *pivots, uint64_t *keys)
{
    struct packing like = {.products = products, .inverses = inverses,
                           .order = (int64_t)1 << bits, .size = size, .bits = (int)bits};
    pack_field(&like);
    const int64_t words = like.words, spare = words * like.each - size;
    uint32_t *table = scratch + (LINE - (uintptr_t)scratch % LINE) / sizeof *scratch;
    uint32_t *own = table + MULTIPLES * stride;
    for (int64_t s = 0; s < segments; s++) {
        const int64_t first = offsets[s], count = offsets[s + 1] - first;
        for (int64_t i = 0; i < count; i++)
            keys[i] = ((uint64_t)order[first + i] << 32) | (uint32_t)i;
        sort_keys(keys, count);
        for (int64_t i = 0; i < count; i++) {
            const int64_t item = first + (int64_t)(uint32_t)keys[i];
            uint32_t *row = own + i * stride;
            for (int64_t w = 0; w < words; w++)
                row[w] = rows[item * words + w] & like.ones * like.low;
            row[words - 1] &= like.ones * like.low >> spare * bits;
            memset(row + words, 0, (size_t)(stride - words) * sizeof *row);
            row[stride - 1] = answers[item];
        }
        if (stride == ROW_BLOCK) /* a constant here lets the compiler drop the inner loops */
            solve_rows(&like, own, count, ROW_BLOCK, table, kept, pivots, solutions + s * words);
        else
            solve_rows(&like, own, count, stride, table, kept, pivots, solutions + s * words);
    }
}

#define FIELD_BLOCK 128 /* ids taken together, so that hashing is in step and look-ups overlap */

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
        totals[c] += (reading ^ minus) - minus; /* signs are coins: no branch would foresee them */
        totals[count + c] += reading * reading;
    }
}

enum { PRF, BLAKE2S, WIDE }; /* how rows are hashed: kernels/compiled_fields.py */

struct hasher {
    int64_t family;
    uint64_t seed;
    uint32_t keyed[8];
    struct { /* of the prf family, after the ids */
        uint32_t v0[FIELD_BLOCK], v1[FIELD_BLOCK], v2[FIELD_BLOCK], v3[FIELD_BLOCK];
    } opened;
    uint32_t words[8][FIELD_BLOCK]; /* the wide family makes eight at a time */
};

/* What all words of the ids' rows share. */
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

/* Word w of every id's row; in the wide family words are asked for one after another. */
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

/* Adds the product of one symbol and the next digit, the top one, of every id's word, which is
 * used up. */
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

/* Writes the element that the id's parities make; `odd` has the bits of bit b at FIELD_BLOCK·b. */
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
            const int64_t many = count - start < FIELD_BLOCK ? count - start : FIELD_BLOCK;
            memset(sums, 0, sizeof sums);
            memset(odd, 0, (size_t)bits * FIELD_BLOCK * sizeof *odd);
            open_rows(&hash, some, many);
            for (int64_t w = 0; w < words; w++) {
                uint32_t *hashed = row_words(&hash, some, many, w);
                for (int b = 0; b < bits; b++)
                    for (int64_t c = 0; c < many; c++)
                        odd[FIELD_BLOCK * b + c] ^= hashed[c] & scratch[w * bits + b];
                const int64_t stop = (w + 1) * each < size ? (w + 1) * each : size;
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

#define POINT_BLOCK 32 /* points that all reports are read at: a line of 16-bit values */
typedef uint16_t point_block __attribute__((vector_size(2 * POINT_BLOCK), may_alias));

/* Row 16·(j·parts + p) + c of the table becomes c·x^(4p)·γ^j for every point γ of the block, so
 * that polynomials are evaluated by look-ups that share nothing but the table. */
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

/* What read_polynomial does of many reports where ids are points: their powers are the same for
 * all. table: 16 rows for each four bits of each coefficient, and a line to begin in. */
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
 * does it, by Newton's divided differences. scratch: three rows of `size`. repeated: set to 1 where
 * a row has a point twice, and so no such polynomial. */
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
                *repeated |= difference == 0; /* which the mask keeps in the table */
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

#define TAG_GROUP ((uint32_t)'q')
#define MAX_GROUPS 8192

/* Adds 1 to counter b of a column for every word that has bit b. */
INLINE void count_bits(const uint32_t *words, int64_t count, uint32_t *column)
{
    for (int64_t i = 0; i < count; i++)
        for (uint32_t b = 0; b < 32; b++) /* a test against a mask, not a shift: it vectorises */
            column[b] += (words[i] & 1u << b) != 0;
}

#define TOKEN_BLOCK 128 /* items hashed in step */

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
            const int64_t many = stop - t < TOKEN_BLOCK ? stop - t : TOKEN_BLOCK;
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

/* Clients: signed bins, and the cells and records that they travel in. */
#define TAG_ROW ((uint32_t)'r')
#define TAG_MATRIX ((uint32_t)'A')
#define TAG_MAP ((uint32_t)'j')
#define TAG_MASK ((uint32_t)'m')
#define TAG_FOLD ((uint32_t)'f')
#define ITEM_BLOCK 256  /* items hashed in step: their columns stay in the first cache */
#define CLIENT_BLOCK 64 /* seeds hashed in step */
#define MAX_WIDTH 16    /* bits of a bin's number in the linear family */
#define MAP_ROUNDS 4

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
        const int64_t many = items - start < ITEM_BLOCK ? items - start : ITEM_BLOCK;
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
            const int64_t held = left < many - i ? left : many - i;
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

/* What seeds draw over the public maps: a map, a row r, and the `width` rows of A. */
struct drawn {
    uint32_t map[CLIENT_BLOCK], row[CLIENT_BLOCK], matrix[MAX_WIDTH][CLIENT_BLOCK];
};

INLINE void draw_maps(const uint64_t *seeds, int64_t count, int64_t maps, uint32_t *map)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t hash = half_sip(seeds[i], 0, CLOSING(TAG_MAP));
        map[i] = scale_to(hash, (uint32_t)maps);
    }
}

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

HOT API void faintly_pick_maps(const uint64_t *seeds, int64_t count, int64_t maps, int64_t *picked)
{
    uint32_t map[CLIENT_BLOCK];
    for (int64_t start = 0; start < count; start += CLIENT_BLOCK) {
        const int64_t many = count - start < CLIENT_BLOCK ? count - start : CLIENT_BLOCK;
        draw_maps(seeds + start, many, maps, map);
        for (int64_t i = 0; i < many; i++)
            picked[start + i] = map[i];
    }
}

/* The public maps of a plan; `fold_key` is null where codes are bijective. */
struct public_maps {
    const uint32_t *factor, *offset;
    const uint64_t *mask_key, *fold_key;
    uint32_t low, shift;
};

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
    const struct public_maps all = {factor, offset, mask_key, bijective ? NULL : fold_key,
                                    low, (uint32_t)((bits + 1) / 2)};
    uint32_t where[ITEM_BLOCK], signs[ITEM_BLOCK];
    struct drawn drawn;
    for (int64_t first = 0; first < clients; first += CLIENT_BLOCK) {
        const int64_t many = clients - first < CLIENT_BLOCK ? clients - first : CLIENT_BLOCK;
        draw_rows(seeds + first, many, maps, width, low, &drawn);
        for (int64_t c = 0; c < many; c++) {
            const int64_t stop = offsets[first + c + 1];
            for (int64_t i = offsets[first + c]; i < stop; i += ITEM_BLOCK) {
                const int64_t held = stop - i < ITEM_BLOCK ? stop - i : ITEM_BLOCK;
                place_linear(&all, &drawn, c, width, ids + i, held, where, signs);
                add_to_bins(where, signs, amounts + i, held, sums + ((first + c) << width));
            }
        }
    }
}

HOT API void faintly_code_items(const uint64_t *seeds, const int64_t *offsets, int64_t clients,
                                const uint64_t *ids, const uint32_t *factor,
                                const uint32_t *offset, const uint64_t *mask_key,
                                const uint64_t *fold_key, int64_t bijective, int64_t maps,
                                int64_t bits, uint32_t *codes, uint8_t *flips)
{
    const uint32_t low = (uint32_t)(((uint64_t)1 << bits) - 1);
    const struct public_maps all = {factor, offset, mask_key, bijective ? NULL : fold_key,
                                    low, (uint32_t)((bits + 1) / 2)};
    for (int64_t c = 0; c < clients; c++) {
        const int64_t first = offsets[c], count = offsets[c + 1] - first;
        uint32_t map;
        draw_maps(seeds + c, 1, maps, &map);
        code_items(&all, map, ids + first, count, codes + first);
        for (int64_t i = first; i < first + count; i++)
            flips[i] = half_sip(mask_key[map], ids[i], CLOSING(TAG_MASK)) & 1;
    }
}

/* What transformed tables hold for ids, by one map after another: the code of an id names a
 * block (a table of the map) and an entry in it, and the public sign may turn the entry. Kept are
 * the sum over the maps and the largest entry, for readers that leave one map out. */
#define DEFINE_GATHER(width)                                                                 \
    HOT API void faintly_gather_##width(                                                     \
        const int##width##_t *tables, int64_t size, int64_t blocks, const uint64_t *ids,     \
        int64_t count, const uint32_t *factor, const uint32_t *offset,                       \
        const uint64_t *mask_key, const uint64_t *fold_key, int64_t bijective, int64_t maps, \
        int64_t bits, int64_t *totals, int64_t *largest)                                     \
    {                                                                                        \
        const uint32_t low = (uint32_t)(((uint64_t)1 << bits) - 1), block = (uint32_t)blocks; \
        const uint32_t inside = (uint32_t)(size - 1);                                        \
        const struct public_maps all = {factor,   offset, mask_key,                          \
                                        bijective ? NULL : fold_key, low,                    \
                                        (uint32_t)((bits + 1) / 2)};                         \
        uint32_t codes[ITEM_BLOCK], flips[ITEM_BLOCK];                                       \
        for (int64_t j = 0; j < maps; j++) {                                                 \
            const int##width##_t *own = tables + j * blocks * size;                          \
            for (int64_t start = 0; start < count; start += ITEM_BLOCK) {                    \
                const int64_t many = least(count - start, ITEM_BLOCK);                       \
                code_items(&all, (uint32_t)j, ids + start, many, codes);                     \
                for (int64_t i = 0; i < many; i++)                                           \
                    flips[i] = half_sip(mask_key[j], ids[start + i], CLOSING(TAG_MASK)) & 1; \
                for (int64_t i = 0; i < many; i++) {                                         \
                    const int64_t minus = -(int64_t)flips[i];                                \
                    const int64_t value =                                                    \
                        blocks == 1                                                          \
                            ? own[codes[i] & inside]                                         \
                            : own[codes[i] % block * size + (codes[i] / block & inside)];    \
                    const int64_t turned = (value ^ minus) - minus;                          \
                    const int64_t most = largest[start + i];                                 \
                    totals[start + i] += turned;                                             \
                    largest[start + i] = turned > most ? turned : most;                      \
                }                                                                            \
            }                                                                                \
        }                                                                                    \
    }

DEFINE_GATHER(32)
DEFINE_GATHER(64)

/* Sixteen cells at once; a narrower machine takes several registers for them. */
typedef uint32_t lanes __attribute__((vector_size(64)));
#define STEP 16
#define LANE_BIT(bit) (-((LANE_NUMBERS >> (bit)) & 1)) /* all ones where a lane's number has it */
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

/* Transforms rows of 2^width words that stand one after another; 16 words are one step. */
INLINE void transform_lanes(uint32_t *words, int64_t count, int64_t width)
{
    for (int64_t i = 0; i < count; i += STEP) {
        const size_t size = sizeof(uint32_t) * (size_t)(count - i < STEP ? count - i : STEP);
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
        memcpy(index + first, &made, sizeof *index * (size_t)(cells < STEP ? cells : STEP));
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
        const int64_t many = reports - first < CLIENT_BLOCK ? reports - first : CLIENT_BLOCK;
        const uint32_t *said = fields + (first << width);
        uint32_t *own = weight + (first << width);
        draw_rows(seeds + first, many, maps, width, low, &drawn);
        for (int64_t i = 0; i < many << width; i++) {
            most = said[i] > most ? said[i] : most;
            own[i] = said[i] - (uint32_t)center;
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

API void faintly_hash_words_blake2s(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                                    int64_t tag, int64_t count, uint32_t *words)
{
    uint32_t keyed[8];
    for (int64_t i = 0; i < items; i++) {
        if (i == 0 || seeds[i] != seeds[i - 1]) /* items of one client stand together */
            blake2s_keyed(keyed, seeds[i], 8);
        for (int64_t w = 0; w < count; w++)
            words[i * count + w] =
                blake2s_first(keyed, ids[i], CLOSING_WORD((uint32_t)tag, w));
    }
}

/* Byte strings and records are little-endian, whatever the machine is. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LITTLE32(x) __builtin_bswap32(x)
#define LITTLE64(x) __builtin_bswap64(x)
#else
#define LITTLE32(x) (x)
#define LITTLE64(x) (x)
#endif
#define BLAKE_BLOCK 64 /* bytes */

/* Strings of one block that wait until there are sixteen of them. */
struct waiting {
    lanes message[16], bytes;
    int64_t position[STEP];
    int count;
};

INLINE void add_waiting(struct waiting *some, const uint8_t *text, int64_t bytes,
                               int64_t position)
{
    uint32_t block[16] = {0};
    const int lane = some->count++;
    memcpy(block, text, (size_t)bytes);
    for (int w = 0; w < 16; w++)
        ((uint32_t *)&some->message[w])[lane] = LITTLE32(block[w]);
    ((uint32_t *)&some->bytes)[lane] = BLAKE_BLOCK + (uint32_t)bytes;
    some->position[lane] = position;
}

INLINE void hash_waiting(struct waiting *some, const uint32_t keyed[8], uint64_t *ids)
{
    const lanes zero = {0}, *m = some->message;
    lanes v[16] = {{0}};
    for (int i = 0; i < 8; i++) {
        v[i] = zero + keyed[i];
        v[i + 8] = zero + BLAKE_IV[i];
    }
    v[12] ^= some->bytes;
    v[14] = ~v[14];
    BLAKE_ROUNDS
    const lanes low = v[0] ^ v[8] ^ keyed[0], high = v[1] ^ v[9] ^ keyed[1];
    for (int lane = 0; lane < some->count; lane++)
        ids[some->position[lane]] = (uint64_t)high[lane] << 32 | low[lane];
    some->count = 0;
}

/* One string of any length; without a byte, the block of the key is the last one. */
static uint64_t hash_string(const uint32_t start[8], const uint32_t key[16], const uint8_t *text,
                            int64_t bytes)
{
    uint32_t h[8], block[16];
    memcpy(h, start, sizeof h);
    blake2s_compress(h, key, BLAKE_BLOCK, bytes ? 0 : 0xffffffffu);
    for (int64_t done = 0; done < bytes; done += BLAKE_BLOCK) {
        const int64_t left = bytes - done, taken = left < BLAKE_BLOCK ? left : BLAKE_BLOCK;
        memset(block, 0, sizeof block);
        memcpy(block, text + done, (size_t)taken);
        for (int w = 0; w < 16; w++)
            block[w] = LITTLE32(block[w]);
        blake2s_compress(h, block, (uint32_t)(BLAKE_BLOCK + done + taken),
                         left <= BLAKE_BLOCK ? 0xffffffffu : 0);
    }
    return (uint64_t)h[1] << 32 | h[0];
}

HOT API void faintly_hash_keys(const uint8_t *data, const int64_t *offsets, int64_t count,
                               const uint8_t *salt, int64_t salt_bytes, uint64_t *ids)
{
    uint32_t start[8], keyed[8], key[16] = {0};
    struct waiting some = {.count = 0};
    memcpy(key, salt, (size_t)salt_bytes);
    for (int w = 0; w < 16; w++)
        key[w] = LITTLE32(key[w]);
    memcpy(start, BLAKE_IV, sizeof start);
    start[0] ^= 0x01010000u ^ (uint32_t)(salt_bytes << 8) ^ 8u; /* digests of 8 bytes */
    memcpy(keyed, start, sizeof keyed);
    blake2s_compress(keyed, key, BLAKE_BLOCK, 0);
    for (int64_t i = 0; i < count; i++) {
        const int64_t bytes = offsets[i + 1] - offsets[i];
        if (bytes < 1 || bytes > BLAKE_BLOCK) {
            ids[i] = hash_string(start, key, data + offsets[i], bytes);
            continue;
        }
        add_waiting(&some, data + offsets[i], bytes, i);
        if (some.count == STEP)
            hash_waiting(&some, keyed, ids);
    }
    hash_waiting(&some, keyed, ids);
}

/* Records: seed bytes, then fields packed low bit first. Eight bytes hold any field. */
INLINE uint64_t window(const uint8_t *at, const uint8_t *end)
{
    uint64_t bits = 0;
    memcpy(&bits, at, end - at >= 8 ? 8 : (size_t)(end - at));
    return LITTLE64(bits);
}

API void faintly_pack_records(const uint64_t *seeds, const uint32_t *fields, int64_t count,
                              int64_t seed_bytes, const uint32_t *widths, int64_t columns,
                              int64_t record_bytes, uint8_t *records, int64_t *too_wide)
{
    uint64_t lost = 0;
    for (int64_t i = 0; i < count; i++) {
        uint8_t *at = records + i * record_bytes, *const end = at + record_bytes;
        const uint64_t seed = LITTLE64(seeds[i]);
        uint64_t bits = 0; /* fewer than 32 wait when a field is added */
        uint32_t filled = 0;
        memcpy(at, &seed, (size_t)seed_bytes);
        at += seed_bytes;
        for (int64_t f = 0; f < columns; f++) {
            lost |= (uint64_t)fields[i * columns + f] >> widths[f];
            bits |= (uint64_t)fields[i * columns + f] << filled;
            filled += widths[f];
            if (filled >= 32) {
                const uint32_t ready = LITTLE32((uint32_t)bits);
                memcpy(at, &ready, 4);
                at += 4;
                bits >>= 32;
                filled -= 32;
            }
        }
        for (; at < end; bits >>= 8)
            *at++ = (uint8_t)bits;
    }
    *too_wide = lost != 0;
}

/* `faults` becomes the least field that is not below its limit and the first record where it
 * is so, then the first record that sets unused bits; what is fine stays as it was. */
API void faintly_unpack_records(const uint8_t *records, int64_t count, int64_t record_bytes,
                                int64_t seed_bytes, const uint32_t *widths,
                                const uint32_t *largest, int64_t columns, uint64_t *seeds,
                                uint32_t *fields, int64_t *faults)
{
    const uint8_t *const end = records + count * record_bytes;
    const uint64_t mask = seed_bytes < 8 ? ((uint64_t)1 << (8 * seed_bytes)) - 1 : ~(uint64_t)0;
    for (int64_t i = count; i-- > 0;) {
        const uint8_t *const own = records + i * record_bytes;
        uint32_t *out = fields + i * columns;
        uint64_t position = 8 * (uint64_t)seed_bytes;
        uint32_t outside = 0;
        const uint64_t whole = window(own, end); /* of a short record, all of it */
        seeds[i] = whole & mask;
        for (int64_t f = 0; f < columns; f++) {
            const uint64_t bits = record_bytes <= 8
                                      ? whole >> position
                                      : window(own + (position >> 3), end) >> (position & 7);
            out[f] = (uint32_t)(bits & (((uint64_t)1 << widths[f]) - 1));
            outside |= out[f] > largest[f];
            position += widths[f];
        }
        for (int64_t f = 0; outside && f < columns && f <= faults[0]; f++)
            if (out[f] > largest[f]) {
                faults[0] = f;
                faults[1] = i;
            }
        if (position & 7 && own[record_bytes - 1] >> (position & 7))
            faults[2] = i;
    }
}

/* Pairs of a key and a position, of which the positions ascend, by their keys: digit after digit
 * of 8 bits, each time without changing the order of equals. Returns which array holds them. */
static const uint64_t *sort_pairs(uint64_t *pairs, uint64_t *others, int64_t count)
{
    uint32_t next[4][256] = {{0}};
    if (count < 2)
        return pairs;
    for (int64_t i = 0; i < count; i++)
        for (int digit = 0; digit < 4; digit++)
            next[digit][pairs[i] >> (32 + 8 * digit) & 255]++;
    for (int digit = 0; digit < 4; digit++) {
        const int shift = 32 + 8 * digit;
        uint32_t start = 0;
        if (next[digit][pairs[0] >> shift & 255] == count)
            continue; /* all have the same, as those of a part have */
        for (int value = 0; value < 256; value++) {
            const uint32_t held = next[digit][value];
            next[digit][value] = start;
            start += held;
        }
        for (int64_t i = 0; i < count; i++)
            others[next[digit][pairs[i] >> shift & 255]++] = pairs[i];
        uint64_t *const sorted = others;
        others = pairs;
        pairs = sorted;
    }
    return pairs;
}

/* What memcpy does; calling it costs more than to copy a few bytes. */
INLINE void copy_row(uint8_t *to, const uint8_t *from, int64_t width)
{
    if (width > 16) {
        memcpy(to, from, (size_t)width);
    } else if (width >= 8) { /* both ends, which may overlap */
        memcpy(to, from, 8);
        memcpy(to + width - 8, from + width - 8, 8);
    } else if (width >= 4) {
        memcpy(to, from, 4);
        memcpy(to + width - 4, from + width - 4, 4);
    } else {
        for (int64_t i = 0; i < width; i++)
            to[i] = from[i];
    }
}

/* Rows from the positions of sorted pairs; they may lie anywhere in memory. */
static void place_rows(const uint8_t *rows, int64_t width, const uint64_t *sorted, int64_t count,
                       uint8_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t later = (uint32_t)sorted[least(i + AHEAD, count - 1)];
        PREFETCH(rows + later * width);
        copy_row(out + i * width, rows + (uint32_t)sorted[i] * width, width);
    }
}

#define TOGETHER 32768 /* rows, whose pairs the second cache of most machines holds */
#define PARTS 256      /* by the first digit of their keys, for more than that */

/* Rows in the order of their keys. Many are first taken apart, so that caches hold what is sorted:
 * this writes to the ends of all parts, whose next lines it fetches ahead, or it would wait for
 * them. If `carried` is 1, rows go along to `moved`, to be read from nearby in the end. */
API void faintly_shuffle_rows(const uint8_t *records, int64_t width, const uint32_t *keys,
                              int64_t count, int64_t carried, uint8_t *moved, uint64_t *pairs,
                              uint64_t *others, uint8_t *out)
{
    uint32_t held[PARTS] = {0}, next[PARTS], start = 0;
    if (count <= TOGETHER) {
        for (int64_t i = 0; i < count; i++)
            pairs[i] = (uint64_t)keys[i] << 32 | (uint64_t)i;
        place_rows(records, width, sort_pairs(pairs, others, count), count, out);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        held[keys[i] >> 24]++;
    for (int part = 0; part < PARTS; part++) {
        next[part] = start;
        start += held[part];
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = next[keys[i] >> 24]++;
        PREFETCH(pairs + at + 8);
        pairs[at] = (uint64_t)keys[i] << 32 | (uint64_t)(carried ? at : i);
        if (carried) {
            PREFETCH(moved + at * width + 64);
            copy_row(moved + at * width, records + i * width, width);
        }
    }
    const uint8_t *const rows = carried ? moved : records;
    for (int part = 0; part < PARTS; part++) {
        place_rows(rows, width, sort_pairs(pairs, others, held[part]), held[part], out);
        pairs += held[part];
        out += held[part] * width;
    }
}
