"""Plans, vectors and refusals of orthogonal for the test vectors."""

from typing import Any

Document = dict[str, Any]
Randomize = tuple[str, str, list[tuple[Document, float]], str | list[int]]
HIGH = 2**32 - 1
SPEAK = [2459988086]  # two rows at ε = 1
LEVELS = [1141788602, 548149346]  # one row or two at ε = 0.5


def parameters(bits: int, blocks: int = 1, **changes: Any) -> Document:
    """Return the parameters of a plan."""
    base = {"rows": 2, "speak": SPEAK, "bits": bits, "blocks": blocks, "constants": []}
    return base | changes


def _plan(**changes: Any) -> Document:
    return {"mechanism": "orthogonal", "values": "set", **changes}


# name: (why, fields that differ from the base plan)
PLANS: dict[str, tuple[str, Document]] = {
    "orthogonal": (
        "orthogonal, direct: two bits for the map and 40 bits, which are two fields",
        _plan(
            sparsity=16,
            universe={"kind": "indexed", "size": 1000},
            parameters=parameters(40),
            hashing={"family": "linear", "bits": 31, "maps": 4},
            decode="direct",
        ),
    ),
    "orthogonal-levels": (
        "two levels: an item asks for one row or for two; any text, values between 0 and 1",
        _plan(
            epsilon="0.5",
            sparsity=3,
            universe={"kind": "open"},
            values="nonnegative",
            parameters=parameters(9, rows=1, speak=LEVELS),
            hashing={"family": "linear", "bits": 31, "maps": 4},
            decode="direct",
        ),
    ),
    "orthogonal-table": (
        "orthogonal by table in three blocks: codes of five bits, cells of six, two maps",
        _plan(
            sparsity=6,
            universe={"kind": "indexed", "size": 20},
            parameters=parameters(6, 3, constants=[1, 7]),
            hashing={"family": "linear", "bits": 5, "maps": 2},
        ),
    ),
    "orthogonal-table-open": (
        "two levels by table over any text: codes of 31 bits are split into blocks and folded",
        _plan(
            epsilon="0.5",
            universe={"kind": "open"},
            parameters=parameters(5, 2, rows=1, speak=LEVELS, constants=[1, 5]),
            hashing={"family": "linear", "bits": 31, "maps": 4},
        ),
    ),
}

# (plan, why, keys with values, label of the hashed words or the exact words)
RANDOMIZE: list[Randomize] = [
    ("orthogonal", "no items: two words of free bits, the second cut to eight", [], "empty"),
    (
        "orthogonal",
        "an item speaks below the threshold and is silent at it",
        [({"index": 7}, 1.0), ({"index": 500}, 1.0)],
        [0, 0, SPEAK[0] - 1, SPEAK[0], HIGH, HIGH],
    ),
    (
        "orthogonal",
        "more than the planned items, out of order: words are taken by rising id",
        [({"index": 997 * item % 1000}, 1.0) for item in range(18)],
        "many",
    ),
    (
        "orthogonal-levels",
        "the first level ends where the second begins, and silence follows",
        [({"integer": f"{item:016x}"}, 1.0) for item in (1, 2, 3, 4)],
        [0] * 4 + [LEVELS[0] - 1, LEVELS[0], sum(LEVELS) - 1, sum(LEVELS), 511],
    ),
    (
        "orthogonal-levels",
        "fractions: what is rounded away uses its second word all the same",
        [({"text": "left-pad"}, 0.25), ({"text": "é"}, 0.75), ({"text": ""}, 0.0)],
        "fractions",
    ),
    (
        "orthogonal-levels",
        "a tie in rounding: its second word follows all first words",
        [({"integer": "0000000000000001"}, 0.3), ({"integer": "0000000000000002"}, 1.0)],
        [1288490188, HIGH, 3435973631, 0, 0, 9],
    ),
    ("orthogonal-table", "no items: one word for each of three cells", [], "empty"),
    (
        "orthogonal-table",
        "items of several blocks: words are taken by id, not by block",
        [({"index": item}, 1.0) for item in (0, 3, 4, 11, 19)],
        "blocks",
    ),
    (
        "orthogonal-table",
        "twenty keys that all speak, more than fit: every cell is 0",
        [({"index": item}, 1.0) for item in range(20)],
        [0] * 40 + [HIGH] * 3,
    ),
    (
        "orthogonal-table-open",
        "text keys of both levels",
        [({"text": text}, 1.0) for text in ("left-pad", "é", "a")],
        [0, 0, 0, 0, LEVELS[0], HIGH, HIGH, HIGH],
    ),
]

# (why, plan, path, value) of a valid plan with one field changed
INVALID: list[tuple[str, str, str, Any]] = [
    ("orthogonal speaks too often for its epsilon", "orthogonal", "epsilon", "0.9"),
    ("orthogonal protects single events only", "orthogonal", "protect", "user"),
    ("orthogonal for values that are words", "orthogonal", "values", "words"),
    ("no rows", "orthogonal", "parameters.rows", 0),
    ("more than eight rows", "orthogonal", "parameters.rows", 9),
    ("no level", "orthogonal", "parameters.speak", []),
    ("three levels", "orthogonal", "parameters.speak", [1, 1, 1]),
    ("no words left for silence", "orthogonal", "parameters.speak", [2**31, 2**31]),
    ("constants without a table", "orthogonal", "parameters.constants", [1, 7]),
    ("a constant that is no element", "orthogonal-table", "parameters.constants", [1, 16]),
    ("one constant for two rows", "orthogonal-table", "parameters.constants", [1]),
    ("blocks without a table", "orthogonal", "parameters.blocks", 2),
    ("hashed rows and fewer than 31 bits", "orthogonal", "hashing.bits", 30),
    ("cells that do not go with the codes", "orthogonal-table", "parameters.bits", 7),
    ("a seed of its own in each report", "orthogonal", "hashing.family", "prf"),
]
ASKED: dict[str, list[Document]] = {
    "orthogonal": [{"index": 0}, {"index": 999}],
    "orthogonal-levels": [{"text": "left-pad"}, {"integer": "ffffffffffffffff"}],
    "orthogonal-table": [{"index": 0}, {"index": 7}, {"index": 19}],
    "orthogonal-table-open": [{"text": "left-pad"}, {"integer": "ffffffffffffffff"}],
}
