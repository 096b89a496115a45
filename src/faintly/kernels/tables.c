/* Tables of sums: adding cells, transforming rows, reading keys. */

#include "kernels.h"

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

#define CACHED (4 << 20) /* bytes of a table: below, prefetching costs more than it saves */
#define MASS_BLOCK 4096  /* entries that can be summed in their own type if 12 bits are free */

/* Rows of 32- or 64-bit integers; the caller makes sure that no sum overflows. */
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
                lower -= (uint64_t)sum & 0xffffffffu; /* it may have wrapped: sum again */   \
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
 * their part in a cache, whatever its size. At most eight, except for short parts: entries a large
 * power of two apart share a set of the cache, which has about eight ways. */
#define MEET(a, b) /* a butterfly */                                                         \
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
    /* Takes `vectors` (a constant) vectors, `stride` apart, through the levels inside a     \
     * vector that rows of `size` have, then through those between the vectors. Inside, ~x   \
     * stands for -x, which saves one instruction in four: every vector is then off by what  \
     * zeros become, and the levels between them collect that error in the first. */         \
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

/* A light block in integers of half the bits, twice as many to a vector: two neighbouring
 * vectors meet, are packed into the lanes of one, and are unpacked at the end. */
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

/* Vectors that straddle two cache lines cost double, and numpy's arrays start anywhere: columns are
 * taken in small vectors until the large ones are aligned. */
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

/* AVX-512 is used for its 32 registers, not for wider vectors: one of 64 bytes would have one more
 * level inside, and such a level costs four times as much as one between vectors. */
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
    /* Transforms the rows in entries `from` to `to`; `found` comes from faintly_weigh. */   \
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

/* What transformed tables hold for ids, by one map after another: the code of an id names a
 * block (a table of the map) and an entry in it, and the public sign may negate it. Results are
 * the sum over the maps and the largest entry, for readers that leave one map out. Sums are
 * unsigned, so that they wrap as numpy's do. */
#define DEFINE_GATHER(width)                                                                 \
    HOT API void faintly_gather_##width(                                                     \
        const int##width##_t *tables, int64_t size, int64_t blocks, const uint64_t *ids,     \
        int64_t count, const uint32_t *factor, const uint32_t *offset,                       \
        const uint64_t *mask_key, const uint64_t *fold_key, int64_t bijective, int64_t maps, \
        int64_t bits, int64_t signs, int64_t *totals, int64_t *largest)                      \
    {                                                                                        \
        const uint32_t block = (uint32_t)blocks, inside = (uint32_t)(size - 1);              \
        const struct public_maps all =                                                       \
            maps_of(factor, offset, mask_key, fold_key, bijective, bits);                    \
        uint32_t codes[ITEM_BLOCK], flips[ITEM_BLOCK];                                       \
        for (int64_t j = 0; j < maps; j++) {                                                 \
            const int##width##_t *own = tables + j * blocks * size;                          \
            for (int64_t start = 0; start < count; start += ITEM_BLOCK) {                    \
                const int64_t many = least(count - start, ITEM_BLOCK);                       \
                code_items(&all, (uint32_t)j, ids + start, many, codes);                     \
                memset(flips, 0, sizeof flips);                                              \
                for (int64_t i = 0; signs && i < many; i++)                                  \
                    flips[i] = half_sip(mask_key[j], ids[start + i], CLOSING(TAG_MASK)) & 1; \
                for (int64_t i = 0; i < many; i++) {                                         \
                    const uint64_t minus = 0u - (uint64_t)flips[i];                          \
                    const int64_t value =                                                    \
                        blocks == 1                                                          \
                            ? own[codes[i] & inside]                                         \
                            : own[codes[i] % block * size + (codes[i] / block & inside)];    \
                    const uint64_t flipped = ((uint64_t)value ^ minus) - minus;              \
                    const int64_t most = largest[start + i];                                 \
                    totals[start + i] = (int64_t)((uint64_t)totals[start + i] + flipped);    \
                    largest[start + i] = (int64_t)flipped > most ? (int64_t)flipped : most;  \
                }                                                                            \
            }                                                                                \
        }                                                                                    \
    }

DEFINE_GATHER(32)
DEFINE_GATHER(64)

/* Parities of many cells at once. A block of cells is transposed into planes: plane b holds bit b
 * of every index, one bit per cell. The parity of <index, code> is then the XOR of the planes
 * that the code selects, for 64 cells per word; the XORs of every five planes are tabulated, so
 * that a code costs four or seven look-ups. Signs are a plane of their own, |weights| a plane
 * for each of their bits, and Σ weight·(-1)^parity = Σ |weight| - 2·Σ |weight| where odd. */
#define PLANE_LANES 32 /* words of 32 cells each: 1024 cells, whose tables fit the L1 cache */
#define PLANE_WORDS (PLANE_LANES / 2)
#define WHOLE _Pragma("GCC unroll 1") /* loops that are unrolled early never become vectors */
#define GROUP 5
#define GROUPS 7

struct planes {
    uint32_t any; /* |weights| ORed: what planes there are */
    uint64_t tables[GROUPS][1 << GROUP][PLANE_WORDS];
    uint64_t weight[32][PLANE_WORDS];
};

/* Any order of cells will do, as long as all planes share it: bit r of lane l is cell
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
        uint32_t any = planes->any; /* of unknown length: the inner loop is vectorised instead */
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
/* target_clones cannot request the instruction that counts the ones of every lane. */
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
