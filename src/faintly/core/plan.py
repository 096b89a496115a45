"""A plan: every public parameter of one collection, and the digest that names it.

Client and server read the same plan, so they cannot disagree. Its JSON is canonical:
sorted keys, no spaces, UTF-8, every non-integer a decimal string. The digest is
BLAKE2s-128 of exactly those bytes. `mechanisms.mechanism_of` checks the
members of `parameters`; everything else is checked here, once.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from faintly.core.arrays import AnyArray, IdArray
from faintly.core.privacy import Budget, Unit, WithinL1, decimal_text, parse_unit
from faintly.core.strict_json import canonical_json, no_repeats
from faintly.core.universe import Key, Universe
from faintly.core.vector import SparseVector
from faintly.errors import InvalidPlan, InvalidVector

FORMAT = "faintly-plan/1"
MAX_EPSILON = 16.0  # beyond e^16 a report hides nothing worth proving
SALT_BYTES = 16  # enough that no two collections share maps by chance
MAX_SPARSITY = 2**20
MAX_CLIENTS = 2**40
MAX_BITS = 31  # codes stay below 2^31, so that 32-bit arithmetic is exact in every language
MAX_MAPS = 4096
FAMILIES = ("linear", "prf", "blake2s")
DECODES = ("table", "direct")
VALUES = ("signed", "nonnegative", "set")  # what people hold, the widest first
SEED_BYTES = {"linear": 5, "prf": 5, "blake2s": 8}  # blake2s: delta is a probability over seeds
OPEN_MAPS = 4  # with fewer maps a collision with a heavy key would dominate

Parameter = int | str | None | list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashing:
    """The public hash: its family and, for the linear one, code bits and number of maps."""

    family: str
    bits: int = 0
    maps: int = 0

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise InvalidPlan(f"family must be one of {', '.join(FAMILIES)}, got {self.family!r}")
        if self.family != "linear":
            if self.bits or self.maps:
                raise InvalidPlan("bits and maps belong to the linear family; leave them at 0")
            return
        if not 1 <= self.bits <= MAX_BITS:
            raise InvalidPlan(f"bits must be between 1 and {MAX_BITS}, got {self.bits}")
        if not 1 <= self.maps <= MAX_MAPS or self.maps & (self.maps - 1):
            raise InvalidPlan(f"maps must be a power of two up to {MAX_MAPS}, got {self.maps}")

    @property
    def linear(self) -> bool:
        """Return whether codes are linear in bits, as tables need."""
        return self.family == "linear"

    @property
    def seed_bytes(self) -> int:
        """Return the bytes of a report's public seed."""
        return SEED_BYTES[self.family]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a collection is for: the fields that a plan and every request for one share."""

    unit: Unit
    budget: Budget
    sparsity: int
    clients: int
    universe: Universe
    failure: float = 0.05
    values: str = VALUES[0]


def shared_fields(source: Any, shared: type[Terms]) -> dict[str, Any]:
    """Return the fields of `source` that the class `shared` has, as keyword arguments."""
    return {each.name: getattr(source, each.name) for each in fields(shared)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Terms):
    """Every public parameter of one collection; immutable, and named by its digest."""

    mechanism: str
    parameters: Mapping[str, Parameter]
    hashing: Hashing
    decode: str
    salt: bytes = field(repr=False)
    parsed: bool = field(default=False, compare=False, repr=False)  # from JSON

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_sizes(self.unit, self.sparsity, self.clients, self.failure, self.decode)
        check_values(self.values)
        if self.decode == "table" and not self.hashing.linear:
            raise InvalidPlan("table decoding needs the linear family; use --decode direct")
        if len(self.salt) != SALT_BYTES:
            raise InvalidPlan(f"salt must be {SALT_BYTES} bytes, got {len(self.salt)}")
        self._check_codes()

    def _check_codes(self) -> None:
        if not self.hashing.linear:
            return
        if self.universe.size is None:
            if self.hashing.maps < OPEN_MAPS:
                raise InvalidPlan(
                    f"an open universe needs at least {OPEN_MAPS} maps, got {self.hashing.maps}"
                )
        elif 2**self.hashing.bits < self.universe.size:
            raise InvalidPlan(
                f"{self.hashing.bits} bits cannot tell {self.universe.size} keys apart; "
                f"use at least {(self.universe.size - 1).bit_length()}"
            )

    @cached_property
    def canonical(self) -> bytes:
        """Return the canonical JSON that the digest is computed from."""
        return canonical_json(self.document())

    @cached_property
    def digest(self) -> bytes:
        """Return the 16 bytes that name this plan."""
        return hashlib.blake2s(self.canonical, digest_size=16).digest()

    def __repr__(self) -> str:
        return (
            f"Plan({self.mechanism}, protect {self.unit}, {self.budget}, sparsity "
            f"{self.sparsity:,}, {self.clients:,} clients, {self.universe.kind} universe, digest "
            f"{self.digest.hex()})"
        )

    def document(self) -> dict[str, Any]:
        """Return the plan as the JSON object that files hold."""
        universe: dict[str, Any] = {"kind": self.universe.kind}
        if self.universe.kind == "indexed":
            universe["size"] = self.universe.size
        if self.universe.names is not None:
            universe["names"] = list(self.universe.names)
        # Omitted where signed: plans older than the field lack it.
        values = {} if self.values == VALUES[0] else {"values": self.values}
        return {
            "format": FORMAT,
            "protect": str(self.unit),
            "epsilon": decimal_text(self.budget.epsilon),
            "delta": decimal_text(self.budget.delta),
            "sparsity": self.sparsity,
            "clients": self.clients,
            "failure": decimal_text(self.failure),
            "universe": universe,
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "hashing": asdict(self.hashing),
            "decode": self.decode,
            "salt": self.salt.hex(),
            **values,
        }

    def to_json(self) -> str:
        """Return the plan as indented JSON, for people."""
        return json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the plan in `text`, or raise with the rule that it breaks."""
        if not isinstance(text, str | bytes):
            raise InvalidPlan("a plan is read from JSON text; to read a file, pass its contents")
        try:
            decoded = text.decode("utf-8") if isinstance(text, bytes) else text
            document = json.loads(
                decoded,
                object_pairs_hook=no_repeats,
                parse_float=_no_floats,
                parse_constant=_no_floats,
            )
        except json.JSONDecodeError as error:
            raise InvalidPlan(f"the plan is not JSON, see line {error.lineno}") from None
        except UnicodeDecodeError:
            raise InvalidPlan("the plan is not JSON: it is not UTF-8 text") from None
        except (ValueError, RecursionError) as error:
            raise InvalidPlan(f"the plan's JSON is not valid: {error}") from None
        return cls(**_fields(_Reader(document, "plan")), parsed=True)

    def ids(self, keys: Iterable[Key] | AnyArray, *, private: bool = False) -> IdArray:
        """Return the 64-bit id of each key under this plan's universe and salt."""
        return self.universe.ids(keys, self.salt, private=private)

    def vector(self, items: Mapping[Key, float] | Iterable[Key] | SparseVector) -> SparseVector:
        """Return a client's vector from a mapping of key to value, or from a set of keys.

        Privacy: errors name positions and rules, never keys or values.
        """
        if isinstance(items, SparseVector):
            self.ids(items.indices, private=True)
            return items
        if isinstance(items, Mapping):
            return SparseVector(self.ids(list(items), private=True), list(items.values()))
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise InvalidVector(
                "a vector is made from a mapping of key to value, or from a set of keys"
            )
        return SparseVector(self.ids(list(items), private=True))


def check_budget(budget: Budget) -> None:
    """Refuse a budget that hides nothing in practice."""
    if budget.epsilon > MAX_EPSILON:
        raise InvalidPlan(
            f"epsilon must be above 0 and at most {MAX_EPSILON:g}, got {budget.epsilon:g}"
        )


def check_between(name: str, value: int, least: int, most: int) -> None:
    """Refuse a number outside its range."""
    if not least <= value <= most:
        nearest = min(max(value, least), most)
        raise InvalidPlan(
            f"{name} must be between {least} and {most}, got {value}; the nearest is {nearest}"
        )


def check_sizes(unit: Unit, sparsity: int, clients: int, failure: float, decode: str) -> None:
    """Refuse sizes that no plan can have."""
    check_between("sparsity", sparsity, 1, MAX_SPARSITY)
    check_between("clients", clients, 1, MAX_CLIENTS)
    if not 0 < failure < 1:
        raise InvalidPlan(f"failure must be above 0 and below 1, got {failure:g}")
    if isinstance(unit, WithinL1) and unit.distance > 2 * sparsity:
        raise InvalidPlan(
            f"no two vectors of {sparsity} items are further apart than {2 * sparsity}, "
            f"got l1:{unit.distance:g}; protect user, or l1:{2 * sparsity}"
        )
    if decode not in DECODES:
        raise InvalidPlan(f"decode must be table or direct, got {decode!r}")


def check_values(values: str) -> None:
    """Refuse an unknown kind of values."""
    if values not in VALUES:
        raise InvalidPlan(f"values must be one of {', '.join(VALUES)}, got {values!r}")


def _no_floats(text: str) -> Any:
    raise ValueError(f"numbers with a fraction must be decimal strings, got {text[:20]}")


class _Reader:
    """Takes typed fields out of a JSON object and refuses unknown ones."""

    def __init__(self, document: Any, name: str) -> None:
        if not isinstance(document, dict):
            raise InvalidPlan(f"{name} must be a JSON object")
        self.left = dict(document)
        self.name = name

    def take(self, field_name: str, kind: type) -> Any:
        if field_name not in self.left:
            raise InvalidPlan(f"{self.name} lacks the field {field_name!r}")
        value = self.left.pop(field_name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InvalidPlan(f"{self.name} field {field_name!r} must be {kind.__name__}")
        return value

    def decimal(self, field_name: str) -> float:
        text = self.take(field_name, str)
        if not re.fullmatch(r"(0|[1-9][0-9]{0,17})(\.[0-9]{1,400})?", text):
            raise InvalidPlan(f"{self.name} field {field_name!r} must be a plain decimal string")
        number = float(text)
        if decimal_text(number) != text:
            raise InvalidPlan(
                f"{self.name} field {field_name!r} must be written {decimal_text(number)!r}"
            )
        return number

    def done(self) -> None:
        if self.left:
            raise InvalidPlan(f"{self.name} has an unknown field {sorted(self.left)[0]!r}")


def _fields(reader: _Reader) -> dict[str, Any]:
    if reader.take("format", str) != FORMAT:
        raise InvalidPlan(f"the plan's format must be {FORMAT!r}")
    hashing = _Reader(reader.take("hashing", dict), "hashing")
    protect, salt = reader.take("protect", str), reader.take("salt", str)
    unit = parse_unit(protect)
    if str(unit) != protect:
        raise InvalidPlan(f"plan field 'protect' must be written {str(unit)!r}")
    if not re.fullmatch(r"([0-9a-f]{2})*", salt):
        raise InvalidPlan("salt must be lower-case hexadecimal")
    found = {
        "unit": unit,
        "budget": Budget(reader.decimal("epsilon"), reader.decimal("delta")),
        "sparsity": reader.take("sparsity", int),
        "clients": reader.take("clients", int),
        "failure": reader.decimal("failure"),
        "universe": _universe(_Reader(reader.take("universe", dict), "universe")),
        "mechanism": reader.take("mechanism", str),
        "parameters": _parameters(reader.take("parameters", dict)),
        "hashing": Hashing(
            family=hashing.take("family", str),
            bits=hashing.take("bits", int),
            maps=hashing.take("maps", int),
        ),
        "decode": reader.take("decode", str),
        "salt": bytes.fromhex(salt),
        "values": _values(reader),
    }
    hashing.done()
    reader.done()
    try:
        canonical_json([found["mechanism"], found["parameters"]])
    except UnicodeEncodeError:  # escapes in JSON can spell what UTF-8 cannot
        raise InvalidPlan("a string in the plan has a lone surrogate") from None
    return found


def _parameters(given: dict[str, Any]) -> dict[str, Parameter]:
    """Refuse values of types that no parameter has; in Python, True equals 1."""
    for name, value in given.items():
        integers = value if isinstance(value, list) else [value]
        if value is None or isinstance(value, str) or all(type(each) is int for each in integers):
            continue
        raise InvalidPlan(
            f"parameter {name!r} must be an integer, a string, null or a list of integers"
        )
    return given


def _values(reader: _Reader) -> str:
    if "values" not in reader.left:
        return VALUES[0]
    values: str = reader.take("values", str)
    if values == VALUES[0]:
        raise InvalidPlan(f"plan field 'values' must be left out where it is {VALUES[0]!r}")
    return values


def _universe(reader: _Reader) -> Universe:
    kind = reader.take("kind", str)
    if kind == "indexed":
        universe = Universe.indexed(reader.take("size", int))
    elif kind == "named":
        universe = Universe.named(reader.take("names", list))
    elif kind == "open":
        universe = Universe.open()
    else:
        raise InvalidPlan(f"universe kind must be indexed, named or open, got {kind!r}")
    reader.done()
    return universe
