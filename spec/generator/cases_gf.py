"""Plans, vectors and refusals of retrieval-gf, form span-safe, for the test vectors."""

from typing import Any

Document = dict[str, Any]
Randomize = tuple[str, str, list[tuple[Document, float]], str | list[int]]
HIGH = 2**32 - 1
PRF = {"family": "prf", "bits": 0, "maps": 0}


def parameters(
    bits: int, symbols: int, pairs: list[int], plus: list[int], minus: list[int]
) -> Document:
    """Return the parameters of a channel whose first class alone is read."""
    return {
        "form": "span-safe",
        "symbol_bits": bits,
        "symbols": symbols,
        "seed_bytes": 5,
        "pairs": pairs,
        "plus": plus,
        "minus": minus,
        "readings": [1] + [0] * (len(pairs) - 1),
    }


def _plan(**changes: Any) -> Document:
    return {"mechanism": "retrieval-gf", "hashing": PRF, "decode": "direct", **changes}


# Weights are those of the best channels for ε = 2 and 1.
EIGHT = parameters(3, 11, [1, 3], [2205548027, 298488467], [298488467, 298488467])
FOUR = parameters(2, 3, [2], [1569936343], [577547305])
PLANS: dict[str, tuple[str, Document]] = {
    "gf": (
        "retrieval over GF(8): a seed and eleven symbols, which two words hold",
        _plan(epsilon="2", sparsity=3, parameters=EIGHT),
    ),
    "gf-short": (
        "retrieval over GF(4) and any text, with hardly more symbols than items",
        _plan(sparsity=2, universe={"kind": "open"}, parameters=FOUR),
    ),
}

# (plan, why, keys with values, label of the hashed words or the exact words)
RANDOMIZE: list[Randomize] = [
    ("gf", "no items: two words of free symbols are the report", [], "empty"),
    ("gf", "one item of value 1", [({"index": 5}, 1.0)], "one"),
    (
        "gf",
        "several items with fractions, out of order: two rounds of words, by rising id",
        [({"index": 6}, -0.5), ({"index": 1}, 0.25), ({"index": 4}, -1.0), ({"index": 9}, 0.75)],
        "fractions",
    ),
    (
        "gf",
        "a tie in rounding: its second word follows all first words, and decides down",
        [({"index": 2}, 0.3), ({"index": 7}, 1.0)],
        [1288490188, HIGH, HIGH, 5, 9, 1234567890, 3],
    ),
    (
        "gf",
        "a word one below the first weight, at it, and the highest",
        [({"index": 0}, 1.0), ({"index": 3}, 1.0), ({"index": 8}, -1.0)],
        [0, 0, 0, 2205548026, 2205548027, HIGH, 0, 0],
    ),
    (
        "gf-short",
        "five items in three symbols, more than k: two at least are dropped",
        [({"text": text}, 1.0) for text in ("a", "b", "c", "d", "e")],
        "short",
    ),
    (
        "gf-short",
        "an explicit zero uses no word",
        [({"text": "é"}, -0.4), ({"text": ""}, 0.0)],
        "zero",
    ),
]

# (why, plan, path, value) of a valid plan with one field changed
INVALID: list[tuple[str, str, str, Any]] = [
    ("weights that keep less than the promised epsilon", "gf", "epsilon", "1.9"),
    ("retrieval-gf protects single events only", "gf", "protect", "user"),
    ("an unknown form of retrieval-gf", "gf", "parameters.form", "spanless"),
    ("weights of all symbols that are not 2^32", "gf", "parameters.plus", [2205548026, 298488467]),
    ("pairs that are not half of the symbols", "gf", "parameters.pairs", [1, 2]),
    ("readings of another number of classes", "gf", "parameters.readings", [1]),
    ("readings that tell nothing", "gf", "parameters.readings", [0, 0]),
    ("fewer symbols than items", "gf", "parameters.symbols", 2),
    ("more symbols than a row has", "gf", "parameters.symbols", 2561),
    ("a symbol of nine bits", "gf", "parameters.symbol_bits", 9),
    ("a seed of another length", "gf", "parameters.seed_bytes", 4),
    ("form span-safe with the blake2s family", "gf", "hashing.family", "blake2s"),
]
