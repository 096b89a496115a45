/* Hash words and codes of ids, items and strings. */

#include "kernels.h"

HOT API void faintly_hash_ids(uint64_t key, const uint64_t *ids, int64_t count, int64_t tag,
                              uint32_t *words)
{
    for (int64_t i = 0; i < count; i++)
        words[i] = half_sip(key, ids[i], CLOSING((uint32_t)tag));
}

/* One word for each item, under its own seed and without a number: `mix` of hashing.py. */
HOT API void faintly_hash_each(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                               int64_t tag, uint32_t *words)
{
    for (int64_t i = 0; i < items; i++)
        words[i] = half_sip(seeds[i], ids[i], CLOSING((uint32_t)tag));
}

HOT API void faintly_hash_words(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                            int64_t tag, int64_t count, uint32_t *words)
{
    if (count < 8) { /* vectorise over items; with more words, over the words of one item */
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

API void faintly_hash_wide(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                           int64_t count, uint32_t *words)
{
    uint32_t keyed[8], digest[8];
    for (int64_t i = 0; i < items; i++) {
        if (i == 0 || seeds[i] != seeds[i - 1]) /* items of one client are adjacent */
            blake2s_keyed(keyed, seeds[i], 32);
        for (int64_t w = 0; w < count; w += 8) {
            blake2s(keyed, ids[i], CLOSING_WORD(TAG_WIDE, w / 8), digest);
            memcpy(words + i * count + w, digest,
                   (size_t)least(count - w, 8) * sizeof *words);
        }
    }
}

API void faintly_hash_words_blake2s(const uint64_t *seeds, const uint64_t *ids, int64_t items,
                                    int64_t tag, int64_t count, uint32_t *words)
{
    uint32_t keyed[8];
    for (int64_t i = 0; i < items; i++) {
        if (i == 0 || seeds[i] != seeds[i - 1]) /* items of one client are adjacent */
            blake2s_keyed(keyed, seeds[i], 8);
        for (int64_t w = 0; w < count; w++)
            words[i * count + w] =
                blake2s_first(keyed, ids[i], CLOSING_WORD((uint32_t)tag, w));
    }
}

#define BLAKE_BLOCK 64 /* bytes */

/* Strings of one block, collected until there are sixteen to hash together. */
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

/* One string of any length; if it is empty, the key block is the last. */
static uint64_t hash_string(const uint32_t start[8], const uint32_t key[16], const uint8_t *text,
                            int64_t bytes)
{
    uint32_t h[8], block[16];
    memcpy(h, start, sizeof h);
    blake2s_compress(h, key, BLAKE_BLOCK, bytes ? 0 : 0xffffffffu);
    for (int64_t done = 0; done < bytes; done += BLAKE_BLOCK) {
        const int64_t left = bytes - done, taken = least(left, BLAKE_BLOCK);
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

#define CODE_BLOCK 512 /* codes per round, so that each round is a vectorised loop */

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

HOT API void faintly_pick_maps(const uint64_t *seeds, int64_t count, int64_t maps, int64_t *picked)
{
    uint32_t map[CLIENT_BLOCK];
    for (int64_t start = 0; start < count; start += CLIENT_BLOCK) {
        const int64_t many = least(count - start, CLIENT_BLOCK);
        draw_maps(seeds + start, many, maps, map);
        for (int64_t i = 0; i < many; i++)
            picked[start + i] = map[i];
    }
}

HOT API void faintly_code_items(const uint64_t *seeds, const int64_t *offsets, int64_t clients,
                                const uint64_t *ids, const uint32_t *factor,
                                const uint32_t *offset, const uint64_t *mask_key,
                                const uint64_t *fold_key, int64_t bijective, int64_t maps,
                                int64_t bits, uint32_t *codes, uint8_t *flips)
{
    const struct public_maps all = maps_of(factor, offset, mask_key, fold_key, bijective, bits);
    for (int64_t c = 0; c < clients; c++) {
        const int64_t first = offsets[c], count = offsets[c + 1] - first;
        uint32_t map;
        draw_maps(seeds + c, 1, maps, &map);
        code_items(&all, map, ids + first, count, codes + first);
        for (int64_t i = first; i < first + count; i++)
            flips[i] = half_sip(mask_key[map], ids[i], CLOSING(TAG_MASK)) & 1;
    }
}
