"""Plans, vectors and refusals of projection-choice for the test vectors."""

from typing import Any

Document = dict[str, Any]
Randomize = tuple[str, str, list[tuple[Document, float]], str | list[int]]
HIGH = 2**32 - 1
PRF = {"family": "prf", "bits": 0, "maps": 0}


def parameters(tokens: int, groups: int, top: int, threshold: int) -> Document:
    """Return the parameters of the dense form."""
    return {
        "form": "dense",
        "groups": groups,
        "bins": 1,
        "top": top,
        "threshold": threshold,
        "tokens": tokens,
        "rounding": "independent",
    }


def _plan(**changes: Any) -> Document:
    return {"mechanism": "projection-choice", "protect": "user", **changes}


# T = ⌊2^32·N·e^ε/(N·(e^ε-1) + 2G)⌋. name: (why, fields that differ from the base plan)
FEW = parameters(2, 4, 2, 2041685230)
SETS = parameters(2, 4, 6, 2662501410) | {"form": "unsigned", "bins": 4}
BINS = parameters(2, 4, 8, 2041685230) | {"form": "bins", "bins": 4}
PLANS: dict[str, tuple[str, Document]] = {
    "projection": (
        "projection choice by table: a sign, a row and a map, no seed",
        _plan(
            sparsity=3,
            parameters=parameters(3, 8, 3, 1655639351),
            hashing={"family": "linear", "bits": 4, "maps": 2},
        ),
    ),
    "projection-open": (
        "projection choice by table over any text",
        _plan(
            sparsity=2,
            universe={"kind": "open"},
            parameters=FEW,
            hashing={"family": "linear", "bits": 9, "maps": 4},
        ),
    ),
    "projection-direct": (
        "direct projection choice: a seed and one of eight slots",
        _plan(
            sparsity=2,
            universe={"kind": "indexed", "size": 1000},
            parameters=FEW,
            hashing=PRF,
            decode="direct",
        ),
    ),
    "projection-wide": (
        "direct projection choice with more than 32 groups, and more than 32 tokens",
        _plan(
            sparsity=33,
            universe={"kind": "open"},
            parameters=parameters(33, 64, 45, 2558762208),
            hashing=PRF,
            decode="direct",
        ),
    ),
    "projection-linear-direct": (
        "the linear family decoded directly, which sends the seed; systematic rounding",
        _plan(
            sparsity=2,
            parameters=FEW | {"rounding": "systematic"},
            hashing={"family": "linear", "bits": 4, "maps": 2},
            decode="direct",
        ),
    ),
    "projection-sets": (
        "sets by table: a row with a bin, and a map; no sign and no seed",
        _plan(
            sparsity=2,
            values="set",
            parameters=SETS,
            hashing={"family": "linear", "bits": 10, "maps": 2},
        ),
    ),
    "projection-sets-open": (
        "values in [0, 1] by table over any text; rows of nine bits",
        _plan(
            sparsity=3,
            values="nonnegative",
            universe={"kind": "open"},
            parameters=SETS
            | {"tokens": 3, "groups": 2, "bins": 8, "top": 5}
            | {"threshold": 2373782544},
            hashing={"family": "linear", "bits": 12, "maps": 4},
        ),
    ),
    "projection-sets-direct": (
        "sets read directly: three bins, which only the prf family allows",
        _plan(
            sparsity=2,
            values="set",
            universe={"kind": "indexed", "size": 1000},
            parameters=SETS | {"groups": 2, "bins": 3, "top": 3, "threshold": 3139872686},
            hashing=PRF,
            decode="direct",
        ),
    ),
    "projection-bins": (
        "signed bins by table: a sign, a row with a bin, and a map; no seed",
        _plan(
            sparsity=2,
            parameters=BINS,
            hashing={"family": "linear", "bits": 10, "maps": 2},
        ),
    ),
    "projection-bins-open": (
        "signed bins by table over any text; rows of nine bits",
        _plan(
            sparsity=3,
            universe={"kind": "open"},
            parameters=BINS
            | {"tokens": 3, "groups": 2, "bins": 8, "top": 6}
            | {"threshold": 1655639351},
            hashing={"family": "linear", "bits": 12, "maps": 4},
        ),
    ),
    "projection-bins-direct": (
        "signed bins read directly: three of them, which only the prf family allows",
        _plan(
            sparsity=2,
            universe={"kind": "indexed", "size": 1000},
            parameters=BINS | {"groups": 2, "bins": 3, "top": 4, "threshold": 2474403178},
            hashing=PRF,
            decode="direct",
        ),
    ),
}

# (plan, why, keys with values, label of the hashed words or the exact words)
RANDOMIZE: list[Randomize] = [
    ("projection", "no items: every token is a dummy", [], "empty"),
    ("projection", "one item of value -1, and two dummies", [({"index": 4}, -1.0)], "one item"),
    (
        "projection",
        "several items with fractions, out of order: words are taken by rising id",
        [({"index": 8}, 0.9), ({"index": 0}, -0.6), ({"index": 3}, 0.5)],
        "several",
    ),
    (
        "projection",
        "five tokens where three are allowed: a word for each, and no bit of a dummy counts",
        [({"index": item}, 1.0) for item in (1, 2, 5, 6, 9)],
        "more",
    ),
    (
        "projection-open",
        "text keys, an explicit zero among them",
        [({"text": "left-pad"}, 1.0), ({"text": "é"}, -0.4), ({"text": ""}, 0.0)],
        "open",
    ),
    (
        "projection-direct",
        "sums 2, 2, -2, 0: three slots tie for two best places, and the coin says best",
        [],
        [0, 4, 3, 1, 2041685229, 1, 2],
    ),
    (
        "projection-direct",
        "the same sums, the coin says other, and the rank falls on what the tie left over",
        [],
        [0, 4, 3, 1, 2041685230, 0, 1],
    ),
    (
        "projection-direct",
        "the same sums, the coin says other, and the rank falls below the border",
        [],
        [0, 4, 3, 1, HIGH, 1, 4],
    ),
    (
        "projection-direct",
        "sums 2, 0, 0, 0: the border is 0, where both slots of a group tie; above it is one",
        [],
        [0, 1, 2, 1, 0, 0, 7],
    ),
    (
        "projection-direct",
        "the same sums, and a rank at the border: six slots tie for one place",
        [],
        [0, 1, 2, 1, 0, 1, 5],
    ),
    (
        "projection-direct",
        "a word beyond the last multiple of 3 is skipped, in the cut and for the member",
        [({"index": 10}, 1.0), ({"index": 20}, -1.0), ({"index": 30}, 1.0)],
        [0, 0, 0, HIGH, 2, 0, 0, 0, 0, 0, 0, 0, 1, HIGH, 5],
    ),
    (
        "projection-direct",
        "a tie in rounding: its second word follows all first words, and decides down",
        [({"index": 10}, 0.3), ({"index": 20}, 1.0)],
        [1288490188, HIGH, HIGH, 1, 1, 1, 1, HIGH, 5, 0],
    ),
    (
        "projection-wide",
        "two rounds of dummy words; signs of 64 groups from two words of hash",
        [({"text": "left-pad"}, 1.0), ({"bytes": "00ff"}, -0.5)],
        "wide",
    ),
    (
        "projection-linear-direct",
        "systematic rounding: eight items of a quarter are two tokens, whatever the start",
        [({"index": item}, 0.25 if item % 2 else -0.25) for item in range(8)],
        "systematic",
    ),
    (
        "projection-linear-direct",
        "systematic rounding of sizes between multiples of 2^-32, and a start of 0",
        [({"index": 2}, 0.3), ({"index": 9}, -0.9)],
        [0, HIGH, 0, 1, 2, 3, 0, 1, 1, 1],
    ),
    ("projection-sets", "no items: every token is a dummy in every group", [], "no set"),
    ("projection-sets", "a set of one, and one dummy", [({"index": 4}, 1.0)], "a set of one"),
    (
        "projection-sets",
        "a set of three where two are allowed: a word for each, and no dummy",
        [({"index": item}, 1.0) for item in (1, 5, 9)],
        "a larger set",
    ),
    (
        "projection-sets-open",
        "text keys and values between 0 and 1",
        [({"text": "left-pad"}, 1.0), ({"text": "é"}, 0.4), ({"text": ""}, 0.0)],
        "open set",
    ),
    (
        "projection-sets-direct",
        "a dummy's word beyond the last multiple of 3 is skipped, after all first words",
        [({"index": 10}, 1.0)],
        [0, HIGH, 1, 2, 0, 1, 0],
    ),
    ("projection-bins", "no items: every token is a dummy in every group", [], "no values"),
    (
        "projection-bins",
        "values of either sign: a token's sign turns that of its bins",
        [({"index": 4}, 1.0), ({"index": 7}, -1.0)],
        "two signs",
    ),
    (
        "projection-bins",
        "three tokens where two are allowed: a word for each, and no dummy",
        [({"index": 1}, -1.0), ({"index": 5}, 1.0), ({"index": 9}, -1.0)],
        "more signs",
    ),
    (
        "projection-bins-open",
        "text keys and a fraction",
        [({"text": "left-pad"}, -1.0), ({"text": "é"}, 0.4), ({"text": ""}, 0.0)],
        "open bins",
    ),
    (
        "projection-bins-direct",
        "a dummy's word beyond the last multiple of 6 is skipped, after all first words",
        [({"index": 10}, -1.0)],
        [0, HIGH, 1, 2, 0, 1, 0],
    ),
]

# (why, plan, path, value) of a valid plan with one field changed
INVALID: list[tuple[str, str, str, Any]] = [
    ("a coin that keeps less than the promised epsilon", "projection", "epsilon", "0.5"),
    ("an unknown form", "projection", "parameters.form", "sparse"),
    ("an unknown rounding", "projection", "parameters.rounding", "up"),
    ("groups that are no power of two", "projection", "parameters.groups", 12),
    ("two bins in the dense form", "projection", "parameters.bins", 2),
    ("no best slots", "projection", "parameters.top", 0),
    ("more best slots than groups", "projection", "parameters.top", 9),
    ("a threshold that makes the best no likelier", "projection", "parameters.threshold", 2**29),
    ("tokens other than the sparsity", "projection", "parameters.tokens", 4),
    ("no report for values that may be negative", "projection-sets", "values", "signed"),
    ("bins of a table that are no power of two", "projection-sets", "parameters.bins", 3),
    ("too few bits for rows and bins", "projection-sets", "hashing.bits", 9),
    ("more bits than rows and bins can have", "projection-sets", "hashing.bits", 27),
    ("one signed bin in a table", "projection-bins", "parameters.bins", 1),
    ("signed bins of a table that are no power of two", "projection-bins", "parameters.bins", 3),
    ("too few bits for rows and signed bins", "projection-bins", "hashing.bits", 9),
    ("signed bins of the linear family read directly", "projection-bins", "decode", "direct"),
    ("projection choice with the blake2s family", "projection-direct", "hashing.family", "blake2s"),
]
ASKED: dict[str, list[Document]] = {
    "projection": [{"index": 0}, {"index": 9}],
    "projection-open": [{"text": "left-pad"}, {"text": ""}],
    "projection-direct": [{"index": 0}, {"index": 999}],
    "projection-wide": [{"text": "left-pad"}],
    "projection-linear-direct": [{"index": 0}, {"index": 9}],
    "projection-sets": [{"index": 0}, {"index": 9}],
    "projection-sets-open": [{"text": "left-pad"}, {"text": ""}],
    "projection-sets-direct": [{"index": 0}, {"index": 999}],
    "projection-bins": [{"index": 0}, {"index": 9}],
    "projection-bins-open": [{"text": "left-pad"}, {"text": ""}],
    "projection-bins-direct": [{"index": 0}, {"index": 999}],
}
