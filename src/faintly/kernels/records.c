/* Records of reports: packing fields, unpacking them, shuffling rows. */

#include "kernels.h"

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
        uint64_t bits = 0; /* fewer than 32 are pending when a field is added */
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

/* `faults` becomes the first field that is not below its limit and the first record where it is
 * not, then the first record that sets unused bits; it is unchanged where there is none. */
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

/* Sorts pairs of a key and a position by their keys: a stable radix sort, by digits of 8 bits.
 * Returns the array that holds the result. */
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
            continue; /* all share this digit, as the rows of a part do */
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

/* As memcpy, whose call costs more than copying a few bytes. */
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

/* Copies rows from the positions in sorted pairs; they may lie anywhere in memory. */
static void place_rows(const uint8_t *rows, int64_t width, const uint64_t *sorted, int64_t count,
                       uint8_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t later = (uint32_t)sorted[least(i + AHEAD, count - 1)];
        PREFETCH(rows + later * width);
        copy_row(out + i * width, rows + (uint32_t)sorted[i] * width, width);
    }
}

#define TOGETHER 32768 /* rows, whose pairs fit into the L2 cache of most machines */
#define PARTS 256      /* by the first digit of their keys, for more than that */

/* Rows in the order of their keys. Many rows are first partitioned, so that each sort stays in the
 * cache; the partition prefetches the next line of every part that it appends to. If `carried` is
 * 1, rows are copied along to `moved`, so that the last pass reads them from nearby. */
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
