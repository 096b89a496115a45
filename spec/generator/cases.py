"""What the test vectors are made of: plans, keys, vectors, and documents that must fail.

Plans are written out rather than calibrated, so that a better calibration changes no vector.
"""

import json
from typing import Any

from spec.generator import cases_gf, cases_orthogonal, cases_projection, cases_retrieval

SALT = "000102030405060708090a0b0c0d0e0f"
Document = dict[str, Any]

# Coin thresholds of noise with ratio e^(-epsilon/change), for the changes that the plans need.
NOISE_1_32 = [
    2113931947,
    2080396622,
    2013440412,
    1880437614,
    1621524833,
    1155094622,
    511972666,
    78665075,
]
NOISE_2_8 = [1880437611, 1621524827, 1155094612, 511972655, 78665072]
NOISE_1_8 = [2013440411, 1880437612, 1621524829, 1155094615, 511972658, 78665073]
NOISE_8_2 = [78665071]
NOISE_L1 = [
    2114445439,
    2081422865,
    2015486990,
    1884483955,
    1629256937,
    1168066055,
    525939530,
    83632064,
]
NOISE_SQUEEZE = [
    *(2147483153, 2147482658, 2147481668, 2147479688, 2147475728, 2147467808),
    *(2147451968, 2147420288, 2147356928, 2147230208, 2146976768, 2146469888),
    *(2145456129, 2143428613, 2139373607, 2131263798, 2115045798, 2082622747),
    *(2017880075, 1889217182, 1638315125, 1183346938, 542683538, 89838359),
]
LINEAR_4 = {"family": "linear", "bits": 4, "maps": 1}
PRF = {"family": "prf", "bits": 0, "maps": 0}
BLAKE2S = {"family": "blake2s", "bits": 0, "maps": 0}


def parameters(row: str, bins: int, steps: int, reach: int, noise: list[int]) -> Document:
    """Return the parameters of signed binning for a row that does not clip."""
    return {
        "row": row,
        "bins": bins,
        "steps": steps,
        "clip": None,
        "range": reach,
        "noise": noise,
    }


BASE: Document = {
    "format": "faintly-plan/1",
    "protect": "event",
    "epsilon": "1",
    "delta": "0",
    "sparsity": 4,
    "clients": 1000,
    "failure": "0.05",
    "universe": {"kind": "indexed", "size": 10},
    "mechanism": "signed-binning",
    "parameters": parameters("event", 1, 16, 455, NOISE_1_32),
    "hashing": LINEAR_4,
    "decode": "table",
    "salt": SALT,
}
_TWO_BINS = {
    "epsilon": "2",
    "sparsity": 2,
    "universe": {"kind": "named", "names": ["ash", "birch", 'cédre "日"']},
    "parameters": parameters("event", 2, 4, 60, NOISE_2_8),
    "hashing": {"family": "linear", "bits": 3, "maps": 2},
}
_USER = parameters("user", 1, 2, 102, NOISE_1_8) | {"clip": 4}
_OPEN = {
    "universe": {"kind": "open"},
    "parameters": parameters("event", 2, 16, 477, NOISE_1_32),
    "hashing": {"family": "linear", "bits": 6, "maps": 4},
}
_SQUEEZE = {
    "protect": "l1:64",
    "epsilon": "4",
    "delta": "0.000001",
    "sparsity": 100,
    "universe": {"kind": "open"},
    "parameters": parameters("squeeze", 2, 65536, 34522002, NOISE_SQUEEZE),
    "hashing": BLAKE2S,
    "decode": "direct",
}
_PRF = {
    "sparsity": 12,
    "universe": {"kind": "indexed", "size": 1000},
    "parameters": parameters("event", 3, 16, 618, NOISE_1_32),
    "hashing": PRF,
    "decode": "direct",
}

# name: (why, fields that differ from BASE)
PLANS: dict[str, tuple[str, Document]] = {
    "event-one-bin": ("event level, one bin, all keys by table", {}),
    "event-two-bins": ("two bins and two maps over names that need escapes and UTF-8", _TWO_BINS),
    "event-two-bins-direct": (
        "the same decoded directly: another digest, the same integers",
        _TWO_BINS | {"decode": "direct"},
    ),
    "event-prf": ("three bins, which only the prf family allows", _PRF),
    "event-open": ("any text as a key; four maps", _OPEN),
    "event-open-direct": (
        "any text, kept in full by direct decoding",
        _OPEN | {"decode": "direct"},
    ),
    "event-set": ("what people hold, where it is not signed values", {"values": "set"}),
    "event-coarse": (
        "a single threshold: noise without digits",
        {
            "epsilon": "8",
            "sparsity": 2,
            "clients": 100,
            "universe": {"kind": "indexed", "size": 2},
            "parameters": parameters("event", 1, 1, 5, NOISE_8_2),
            "hashing": {"family": "linear", "bits": 1, "maps": 1},
        },
    ),
    "user-clip": (
        "user level: a bin is clipped before the noise",
        {"protect": "user", "sparsity": 2, "universe": {"kind": "indexed", "size": 16}}
        | {"parameters": _USER},
    ),
    "l1": (
        "l1 distance with a fraction, and a failure probability with several digits",
        {
            "protect": "l1:1.5",
            "failure": "0.0125",
            "parameters": parameters("l1", 2, 16, 484, NOISE_L1),
            "hashing": PRF,
            "decode": "direct",
        },
    ),
    "squeeze": ("the (epsilon, delta) row: 8-byte seeds and keyed BLAKE2s", _SQUEEZE),
}
GROUPS = (cases_retrieval, cases_projection, cases_gf, cases_orthogonal)
for group in GROUPS:
    PLANS |= group.PLANS


def document(name: str) -> Document:
    """Return the plan document of that name."""
    return BASE | PLANS[name][1]


def _with(path: str, value: Any, name: str = "event-one-bin") -> Document:
    return {"plan": name, "path": path, "value": value}


def _without(path: str) -> Document:
    return {"plan": "event-one-bin", "path": path}


def invalid_text(case: Document) -> str:
    """Return the text of an invalid plan: its own, or a good one with one field changed."""
    if "text" in case:
        return str(case["text"])
    changed = json.loads(json.dumps(document(case["plan"])))
    *parents, last = case["path"].split(".")
    inner = changed
    for parent in parents:
        inner = inner[parent]
    if "value" in case:
        inner[last] = case["value"]
    else:
        del inner[last]
    return json.dumps(changed)


_COARSE = json.dumps(document("event-coarse"), sort_keys=True)

# (why, case) of plans that must be refused as InvalidPlan
INVALID_PLANS: list[tuple[str, Document]] = [
    ("not JSON at all", {"text": "plan"}),
    ("a list instead of an object", {"text": "[]"}),
    ("an empty object", {"text": "{}"}),
    ("cut short", {"text": _COARSE[:-1]}),
    ("a field twice", {"text": _COARSE[:-1] + f', "salt": "{SALT}"}}'}),
    ("a missing field", _without("sparsity")),
    ("a missing field further down", _without("hashing.maps")),
    ("a missing parameter", _without("parameters.clip")),
    ("an unknown field", _with("comment", "hello")),
    ("an unknown field further down", _with("hashing.rounds", 4)),
    ("an unknown field of the universe", _with("universe.names", ["a"])),
    ("an unknown parameter", _with("parameters.seed", 1)),
    ("another format", _with("format", "faintly-plan/2")),
    ("a number with a fraction where an integer belongs", _with("sparsity", 4.5)),
    (
        "a fraction of zero is a fraction still",
        {"text": _COARSE.replace('"sparsity": 2', '"sparsity": 2.0')},
    ),
    ("a number that is none", {"text": _COARSE.replace('"range": 5', '"range": NaN')}),
    ("epsilon as a number instead of a decimal string", _with("epsilon", 1)),
    ("epsilon with a needless zero", _with("epsilon", "1.0")),
    ("epsilon with an exponent", _with("epsilon", "1e0")),
    ("epsilon zero", _with("epsilon", "0")),
    ("epsilon beyond 16", _with("epsilon", "17")),
    ("delta of one", _with("delta", "1")),
    ("a sign before delta", _with("delta", "-0.1")),
    ("sparsity zero", _with("sparsity", 0)),
    ("sparsity as text", _with("sparsity", "4")),
    ("sparsity as a truth value", _with("sparsity", True)),
    ("no clients", _with("clients", 0)),
    ("failure zero", _with("failure", "0")),
    ("failure one", _with("failure", "1")),
    ("protects nothing known", _with("protect", "household")),
    ("l1 without a distance", _with("protect", "l1:")),
    ("l1 further than any two vectors of k items", _with("protect", "l1:9")),
    ("an unknown kind of universe", _with("universe", {"kind": "closed"})),
    ("a universe of no keys", _with("universe.size", 0)),
    ("a universe beyond 2^31 keys", _with("universe.size", 2**31 + 1)),
    ("no names", _with("universe", {"kind": "named", "names": []})),
    ("an empty name", _with("universe", {"kind": "named", "names": ["a", ""]})),
    ("a name twice", _with("universe", {"kind": "named", "names": ["a", "a"]})),
    ("a name that is a number", _with("universe", {"kind": "named", "names": ["a", 1]})),
    ("a lone surrogate", _with("universe", {"kind": "named", "names": ["\ud800"]})),
    ("an unknown mechanism", _with("mechanism", "telepathy")),
    ("an unknown hash family", _with("hashing.family", "md5")),
    ("bits that do not belong to prf", _with("hashing", PRF | {"bits": 4}, "event-prf")),
    ("no bits", _with("hashing.bits", 0)),
    ("more than 31 bits", _with("hashing.bits", 32)),
    ("too few bits for the universe", _with("hashing.bits", 3)),
    ("maps that are no power of two", _with("hashing.maps", 3)),
    ("fewer than four maps for an open universe", _with("hashing", LINEAR_4, "event-open")),
    ("table decoding without the linear family", _with("hashing", PRF)),
    ("an unknown way to decode", _with("decode", "guess")),
    ("a short salt", _with("salt", "00")),
    ("an unknown kind of values", _with("values", "words")),
    ("signed values, which are left out", _with("values", "signed")),
    ("a salt in capitals", _with("salt", SALT.upper())),
    ("a row that does not protect the unit", _with("parameters.row", "user")),
    ("an unknown row", _with("parameters.row", "column")),
    ("no bins", _with("parameters.bins", 0)),
    ("bins beyond 4096", _with("parameters.bins", 8192)),
    ("three bins in the linear family", _with("parameters.bins", 3)),
    ("steps that are no power of two", _with("parameters.steps", 12)),
    ("no range", _with("parameters.range", 0)),
    ("a clip where nothing is clipped", _with("parameters.clip", 4)),
    ("no clip at user level", _with("parameters.clip", None, "user-clip")),
    ("two bins at user level", _with("parameters.bins", 2, "user-clip")),
    ("the squeeze row with a weaker hash", _with("hashing", PRF, "squeeze")),
    ("no thresholds", _with("parameters.noise", [])),
    ("a threshold of zero", _with("parameters.noise", [0])),
    ("a threshold of 2^32", _with("parameters.noise", [2**32])),
    ("a threshold as text", _with("parameters.noise", ["1"])),
    ("thresholds that keep less than the promised epsilon", _with("epsilon", "0.5")),
]
INVALID_PLANS += [
    (why, _with(path, value, name)) for group in GROUPS for why, name, path, value in group.INVALID
]

KEYS: list[tuple[str, Document]] = [
    ("plain text", {"text": "left-pad"}),
    ("the empty text", {"text": ""}),
    ("two bytes of UTF-8", {"text": "é"}),
    ("the same letter decomposed: no normalisation, so another id", {"text": "e\u0301"}),
    ("a character beyond 16 bits, four bytes of UTF-8", {"text": "🌱"}),
    ("text of more than one block of 64 bytes", {"text": "ab" * 50}),
    ("bytes that are no text", {"bytes": "00ff"}),
    ("the bytes of a text have the id of the text", {"bytes": b"left-pad".hex()}),
    ("an integer is its own id", {"integer": "000000000000002a"}),
    ("the largest integer", {"integer": "ffffffffffffffff"}),
]

NO_KEYS = [
    ("the first half of a surrogate pair has no UTF-8 form, and so no id", "\ud800"),
    ("a second half between letters", "a\udc00b"),
    ("both halves in the wrong order", "\udc00\ud800"),
]

# What the estimate vectors ask, by plan.
ASKED: dict[str, list[Document]] = {
    "event-one-bin": [{"index": 0}, {"index": 3}, {"index": 9}],
    "event-two-bins": [{"text": "ash"}, {"text": "birch"}],
    "event-two-bins-direct": [{"text": "ash"}, {"text": "birch"}],
    "event-prf": [{"index": 0}, {"index": 999}],
    "event-open": [{"text": "left-pad"}, {"text": ""}, {"integer": "ffffffffffffffff"}],
    "event-open-direct": [{"text": "left-pad"}, {"integer": "ffffffffffffffff"}],
    "event-coarse": [{"index": 0}, {"index": 1}],
    "user-clip": [{"index": 5}],
    "squeeze": [{"text": "left-pad"}, {"bytes": "00ff"}],
}
ASKED |= cases_retrieval.ASKED | cases_projection.ASKED | cases_orthogonal.ASKED

# (plan, why, keys with values, label of the hashed words or the exact words)
RANDOMIZE: list[tuple[str, str, list[tuple[Document, float]], str | list[int]]] = [
    ("event-one-bin", "nobody looks at an empty vector, yet it is sent", [], "empty"),
    (
        "event-one-bin",
        "whole values, one of them negative: a rounding word is used all the same",
        [({"index": 3}, 1.0), ({"index": 9}, -1.0)],
        "whole",
    ),
    (
        "event-one-bin",
        "values between grid steps, listed out of order: items are taken by rising id",
        [({"index": 7}, 0.3), ({"index": 2}, -0.71), ({"index": 0}, 1e-9)],
        "between",
    ),
    (
        "event-one-bin",
        "an explicit zero is dropped and uses no word",
        [({"index": 1}, 0.0), ({"index": 4}, 0.5)],
        "zero",
    ),
    (
        "event-one-bin",
        "a result beyond the range stays at its end: every coin of the first draw is heads",
        [({"index": 5}, 1.0)],
        [0] + [0, 2**32 - 1] * 7 + [0, 2**32 - 1] + [0, 0, 0, 0, 2**32 - 1],
    ),
    (
        "event-two-bins",
        "two bins of the linear family, keys by name",
        [({"text": "ash"}, 1.0), ({"text": 'cédre "日"'}, 0.9)],
        "two",
    ),
    (
        "event-prf",
        "three bins of the prf family and more items than the plan's sparsity: none is cut",
        [({"index": 71 * item}, (item - 6) / 7) for item in range(14)],
        "prf",
    ),
    ("event-open", "text keys", [({"text": "left-pad"}, 1.0), ({"text": "é"}, 1.0)], "open"),
    (
        "event-coarse",
        "a tie in rounding: 0.3 equals its first word to 32 bits, and the second word decides up",
        [({"index": 1}, 0.3)],
        [1288490188, 3435973631, 2**32 - 1, 2**32 - 1],
    ),
    (
        "event-coarse",
        "two values tie: their second words come after both first words; one tie ends down",
        [({"index": 0}, 0.3), ({"index": 1}, 0.7)],
        [1288490188, 3006477107, 2**32 - 1, 0, 2**32 - 1, 2**32 - 1],
    ),
    (
        "event-coarse",
        "a small value has bits in a third word; an equal third word ends it, and not upwards",
        [({"index": 0}, 1e-9)],
        [4, 1266874889, 3047505920, 2**32 - 1, 2**32 - 1],
    ),
    (
        "event-coarse",
        "a value on the 32-bit grid never ties: an equal word is not below it",
        [({"index": 0}, 0.5), ({"index": 1}, 0.25)],
        [2**31, 2**30 - 1, 2**32 - 1, 2**32 - 1],
    ),
    (
        "event-coarse",
        "noise that goes on: first both draws, then only the second, then none",
        [],
        [78665070, 78665070, 78665071, 78665070, 78665071],
    ),
    (
        "user-clip",
        "three items of one sign add up to -6 steps and are cut back to the clip of 4",
        [({"index": item}, 1.0) for item in (1, 2, 4)],
        "user",
    ),
    ("l1", "the l1 row", [({"index": 2}, 0.33), ({"index": 8}, -0.5)], "l1"),
    (
        "squeeze",
        "the squeeze row: 8-byte seed, BLAKE2s places",
        [({"text": "left-pad"}, 1.0), ({"bytes": "00ff"}, -0.123456789)],
        "squeeze",
    ),
]
for group in GROUPS:
    RANDOMIZE += group.RANDOMIZE
