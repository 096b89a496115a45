/* Systems of linear equations: over GF(2), and over small fields given as tables. */

#include "kernels.h"

#include <stdlib.h>

static int compare_keys(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Writes keys in the order of the items, ties by position; their lower halves are positions. */
static void sort_items(const uint32_t *order, int64_t count, uint64_t *keys)
{
    for (int64_t i = 0; i < count; i++)
        keys[i] = ((uint64_t)order[i] << 32) | (uint32_t)i;
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
        sort_items(order + first, count, keys);
#define SOLVE(constant)                                                                      \
    solve_segment(keys, count, rows + first * words, answers + first, constant,              \
                  solutions + s * words, basis, pivots, sides)
        switch (words) { /* a constant lets the compiler unroll the inner loops */
        case 1: SOLVE(1); break;
        case 2: SOLVE(2); break;
        case 3: SOLVE(3); break;
        case 4: SOLVE(4); break;
        default: SOLVE(words);
        }
#undef SOLVE
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

/* row -= times·known; `bits` is 0 where the order of the field is not a power of two. Symbols of
 * other widths are solved as words, below. */
INLINE void subtract_row(uint8_t *row, const uint8_t *known, int64_t size, const uint8_t *times,
                         const uint8_t *differences, int64_t order, int bits)
{
    switch (bits) { /* a constant in each case */
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

/* Retrieval over GF(2^bits), rows as hashed: words hold symbols, lowest first, and no symbol
 * spans two words. Adding is xor. All multiples of a row are sums of row, x·row, x²·row, ...,
 * so with those sums in a table for each four powers, subtracting a multiple is a look-up and an
 * xor of whole words, whatever the symbol; two where symbols have more than four bits. */
#define ROW_BLOCK 16         /* words: rows are padded to whole blocks */
#define MULTIPLES 32         /* rows of the table: two parts of 16 */

struct packing {
    const uint8_t *products, *inverses; /* of the field: (order, order) and (order,) */
    int64_t order, size;                /* elements of the field, symbols of a row */
    int64_t each, words;                /* symbols of a word, words of a row */
    int bits;
    uint32_t low, ones; /* of a word: its first symbol, the lowest bits of all its symbols */
    uint32_t parities[256 * MOST_FIELD_BITS]; /* [s, b]: whose parity is bit b of a product by s */
};

static void pack_field(struct packing *pack)
{
    pack->low = ((uint32_t)1 << pack->bits) - 1;
    pack->each = 32 / pack->bits;
    pack->words = (pack->size + pack->each - 1) / pack->each;
    pack->ones = 0;
    for (int64_t place = 0; place < pack->each; place++)
        pack->ones |= (uint32_t)1 << place * pack->bits;
    for (int64_t s = 0; s < pack->order; s++)
        for (int b = 0; b < pack->bits; b++) {
            uint32_t held = 0;
            for (int u = 0; u < pack->bits; u++)
                held |= (uint32_t)(pack->products[s * pack->order + (1 << u)] >> b & 1) << u;
            pack->parities[s * pack->bits + b] = held;
        }
}

/* A vector type: a loop of known length would be unrolled before it could be vectorised. */
typedef uint32_t row_block __attribute__((vector_size(4 * ROW_BLOCK)));
typedef row_block row_memory __attribute__((may_alias));
_Static_assert(sizeof(row_block) == LINE, "a block is a cache line");

INLINE void add_words(uint32_t *row, const uint32_t *other, int64_t from, int64_t stride)
{
    for (int64_t w = from; w < stride; w += ROW_BLOCK)
        *(row_memory *)(row + w) ^= *(const row_memory *)(other + w);
}

/* Row 16·p + c of the table becomes c·x^(4p) times the given row. */
INLINE void tabulate_multiples(const struct packing *pack, const uint32_t *row, int64_t stride,
                               uint32_t *table)
{
    const int top = pack->bits - 1;
    const uint32_t ones = pack->ones;
    const uint32_t fold = top ? pack->products[pack->order / 2 * pack->order + 2] : 0; /* x^bits */
    for (int u = 0; u < pack->bits; u++) {
        uint32_t *part = table + u / 4 * 16 * stride, *power = part + (stride << u % 4);
        if (u % 4 == 0)
            memset(part, 0, (size_t)stride * sizeof *part);
        for (int64_t w = 0; w < stride; w += ROW_BLOCK) {
            const row_block last = *(const row_memory *)(row + w);
            const row_block out = last >> top & ones; /* shifted out of a symbol by x */
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
INLINE void set_symbol(const struct packing *pack, uint32_t *masks, int64_t stride, int64_t at,
                       uint32_t symbol)
{
    const int shift = (int)(at % pack->each) * pack->bits;
    uint32_t *mask = masks + at / pack->each;
    for (int b = 0; b < pack->bits; b++)
        mask[b * stride] = (mask[b * stride] & ~(pack->low << shift)) |
                           pack->parities[symbol * (uint32_t)pack->bits + (uint32_t)b] << shift;
}

INLINE uint32_t inner_product(const struct packing *pack, const uint32_t *masks, int64_t stride,
                              const uint32_t *row)
{
    uint32_t product = 0;
    for (int b = 0; b < pack->bits; b++) {
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
 * its pivots are: the rows that are kept, and the places of symbols. Returns the rank. */
INLINE int64_t eliminate(const struct packing *pack, uint32_t *rows, int64_t count, int64_t stride,
                         uint32_t *table, int64_t *kept, int64_t *pivots)
{
    int64_t rank = 0;
    for (int64_t i = 0; i < count && rank < pack->size; i++) {
        const uint32_t *row = rows + i * stride;
        int64_t w = 0;
        while (w < pack->words && !row[w])
            w++;
        if (w == pack->words)
            continue; /* in the span of the rows before */
        const int64_t place = __builtin_ctz(row[w]) / pack->bits;
        const int shift = (int)place * pack->bits;
        const uint8_t *over =
            pack->products + pack->inverses[row[w] >> shift & pack->low] * pack->order;
        tabulate_multiples(pack, row, stride, table);
        for (int64_t j = i + 1; j < count; j++) {
            uint32_t *other = rows + j * stride;
            const uint32_t times = over[other[w] >> shift & pack->low];
            const int64_t from = w / ROW_BLOCK * ROW_BLOCK; /* the row is zero before */
            add_words(other, table + (times & 15) * stride, from, stride);
            if (pack->bits > 4)
                add_words(other, table + (16 + (times >> 4)) * stride, from, stride);
        }
        kept[rank] = i;
        pivots[rank++] = w * pack->each + place;
    }
    return rank;
}

INLINE void solve_rows(const struct packing *pack, uint32_t *rows, int64_t count, int64_t stride,
                       uint32_t *scratch, int64_t *kept, int64_t *pivots, uint32_t *solution)
{
    int64_t rank = eliminate(pack, rows, count, stride, scratch, kept, pivots);
    uint32_t *masks = scratch; /* the table is no longer needed */
    memset(masks, 0, (size_t)(pack->bits * stride) * sizeof *masks);
    for (int64_t at = 0; at < pack->size; at++)
        set_symbol(pack, masks, stride, at,
                   solution[at / pack->each] >> at % pack->each * pack->bits & pack->low);
    while (rank-- > 0) { /* a row is 0 at earlier pivots: only its own symbol is undecided */
        const uint32_t *row = rows + kept[rank] * stride;
        const int64_t at = pivots[rank], w = at / pack->each;
        const int shift = (int)(at % pack->each) * pack->bits;
        set_symbol(pack, masks, stride, at, 0);
        const uint32_t left = row[stride - 1] ^ inner_product(pack, masks, stride, row);
        const uint8_t inverse = pack->inverses[row[w] >> shift & pack->low];
        const uint32_t symbol = pack->products[inverse * pack->order + left];
        set_symbol(pack, masks, stride, at, symbol);
        solution[w] = (solution[w] & ~(pack->low << shift)) | symbol << shift;
    }
}

/* scratch: MULTIPLES rows and as many as the longest segment has, and a line for alignment. */
HOT API void faintly_solve_words(const int64_t *offsets, int64_t segments, const uint32_t *order,
                                 const uint32_t *rows, const uint8_t *answers, int64_t size,
                                 uint32_t *solutions, const uint8_t *products,
                                 const uint8_t *inverses, int64_t bits, int64_t stride,
                                 uint32_t *scratch, int64_t *kept, int64_t *pivots, uint64_t *keys)
{
    struct packing pack = {.products = products, .inverses = inverses,
                           .order = (int64_t)1 << bits, .size = size, .bits = (int)bits};
    pack_field(&pack);
    const int64_t words = pack.words, spare = words * pack.each - size;
    uint32_t *table = scratch + (LINE - (uintptr_t)scratch % LINE) / sizeof *scratch;
    uint32_t *own = table + MULTIPLES * stride;
    for (int64_t s = 0; s < segments; s++) {
        const int64_t first = offsets[s], count = offsets[s + 1] - first;
        sort_items(order + first, count, keys);
        for (int64_t i = 0; i < count; i++) {
            const int64_t item = first + (int64_t)(uint32_t)keys[i];
            uint32_t *row = own + i * stride;
            for (int64_t w = 0; w < words; w++)
                row[w] = rows[item * words + w] & pack.ones * pack.low;
            row[words - 1] &= pack.ones * pack.low >> spare * bits;
            memset(row + words, 0, (size_t)(stride - words) * sizeof *row);
            row[stride - 1] = answers[item];
        }
        if (stride == ROW_BLOCK) /* a constant here lets the compiler unroll the inner loops */
            solve_rows(&pack, own, count, ROW_BLOCK, table, kept, pivots, solutions + s * words);
        else
            solve_rows(&pack, own, count, stride, table, kept, pivots, solutions + s * words);
    }
}
