"""Plans, vectors and refusals of retrieval for the test vectors."""

from typing import Any

Document = dict[str, Any]
Randomize = tuple[str, str, list[tuple[Document, float]], str | list[int]]
HIGH = 2**32 - 1
KEEP_1, KEEP_2 = 3139872686, 3782994644  # ⌊2^32·e^ε/(1+e^ε)⌋ for ε = 1 and 2
PRF = {"family": "prf", "bits": 0, "maps": 0}


def parameters(bits: int, blocks: int = 1, keep: int = KEEP_1) -> Document:
    """Return the parameters of a plan."""
    return {"keep": keep, "bits": bits, "blocks": blocks}


def _plan(**changes: Any) -> Document:
    return {"mechanism": "retrieval", **changes}


# name: (why, fields that differ from the base plan)
PLANS: dict[str, tuple[str, Document]] = {
    "retrieval": (
        "retrieval by table: one cell of four bits and one bit for the map, no seed",
        _plan(
            sparsity=3,
            universe={"kind": "indexed", "size": 8},
            parameters=parameters(4),
            hashing={"family": "linear", "bits": 3, "maps": 2},
        ),
    ),
    "retrieval-blocks": (
        "retrieval by table in three blocks: codes of five bits, cells of five bits, one map",
        _plan(
            epsilon="2",
            sparsity=6,
            universe={"kind": "indexed", "size": 20},
            parameters=parameters(5, 3, KEEP_2),
            hashing={"family": "linear", "bits": 5, "maps": 1},
        ),
    ),
    "retrieval-open": (
        "retrieval by table over any text: codes of 31 bits are split into blocks and folded",
        _plan(
            universe={"kind": "open"},
            parameters=parameters(4, 2),
            hashing={"family": "linear", "bits": 31, "maps": 4},
        ),
    ),
    "retrieval-direct": (
        "direct retrieval: a seed and 36 bits, which are two fields",
        _plan(
            sparsity=20,
            universe={"kind": "indexed", "size": 1000},
            parameters=parameters(36),
            hashing=PRF,
            decode="direct",
        ),
    ),
    "retrieval-direct-short": (
        "direct retrieval with hardly more bits than items",
        _plan(
            epsilon="2",
            sparsity=2,
            universe={"kind": "open"},
            parameters=parameters(3, keep=KEEP_2),
            hashing=PRF,
            decode="direct",
        ),
    ),
}

# (plan, why, keys with values, label of the hashed words or the exact words)
RANDOMIZE: list[Randomize] = [
    ("retrieval", "no items: the one word of free bits is the report", [], "empty"),
    ("retrieval", "one item of value 1", [({"index": 5}, 1.0)], "one"),
    (
        "retrieval",
        "several items with fractions, out of order: three rounds of words, by rising id",
        [({"index": 6}, -0.5), ({"index": 1}, 0.25), ({"index": 4}, -1.0)],
        "fractions",
    ),
    (
        "retrieval",
        "a tie in rounding: its second word follows all first words",
        [({"index": 2}, 0.3), ({"index": 7}, 1.0)],
        [1288490188, HIGH, 3435973631, 1, 1, 0, 0, 9],
    ),
    (
        "retrieval",
        "an answer is kept below the threshold and flipped at it",
        [({"index": 0}, 1.0), ({"index": 3}, 1.0)],
        [0, 0, 0, 0, KEEP_1 - 1, KEEP_1, 0],
    ),
    (
        "retrieval",
        "all eight keys, more than k: their codes have rank four, and four items are dropped",
        [({"index": item}, 1.0 if item % 2 else -1.0) for item in range(8)],
        "all",
    ),
    ("retrieval-blocks", "no items: one word for each of three cells", [], "empty"),
    (
        "retrieval-blocks",
        "items of several blocks: words are taken by id, not by block",
        [({"index": item}, 0.75) for item in (0, 3, 4, 11, 19)],
        "blocks",
    ),
    (
        "retrieval-blocks",
        "all twenty keys, more than k: each block drops what depends on its earlier items",
        [({"index": item}, 1.0) for item in range(20)],
        "more",
    ),
    (
        "retrieval-open",
        "text keys, an explicit zero among them",
        [({"text": "left-pad"}, 1.0), ({"text": "é"}, -0.4), ({"text": ""}, 0.0)],
        "open",
    ),
    ("retrieval-direct", "no items: two words of free bits, the second cut to four", [], "empty"),
    (
        "retrieval-direct",
        "several items, with fractions",
        [({"index": 111 * item}, (item - 4) / 5) for item in range(9)],
        "direct",
    ),
    (
        "retrieval-direct-short",
        "five items in three bits, more than k: two at least are dropped",
        [({"text": text}, 1.0) for text in ("a", "b", "c", "d", "e")],
        "short",
    ),
]

# (why, plan, path, value) of a valid plan with one field changed
INVALID: list[tuple[str, str, str, Any]] = [
    ("retrieval keeps more than the promised epsilon", "retrieval", "epsilon", "0.5"),
    ("retrieval protects single events only", "retrieval", "protect", "user"),
    ("retrieval that keeps no more than a fair coin", "retrieval", "parameters.keep", 2**31),
    ("cells whose bits do not go with the codes", "retrieval", "parameters.bits", 5),
    ("blocks without public maps", "retrieval-direct", "parameters.blocks", 2),
    ("fewer bits than items", "retrieval-direct", "parameters.bits", 19),
    ("folded codes of fewer than 31 bits", "retrieval-open", "hashing.bits", 30),
    ("retrieval with the blake2s family", "retrieval-direct", "hashing.family", "blake2s"),
]
ASKED: dict[str, list[Document]] = {
    "retrieval": [{"index": 0}, {"index": 5}],
    "retrieval-blocks": [{"index": 0}, {"index": 7}, {"index": 19}],
    "retrieval-open": [{"text": "left-pad"}, {"integer": "ffffffffffffffff"}],
    "retrieval-direct": [{"index": 0}, {"index": 999}],
}
