"""From a request to integers, and from integers to what they prove.

The threshold T says how likely the N best of M slots are together: T/2^32. The loss is the log
of how much likelier one of the best is than one of the others, T·(M-N) / (N·(2^32-T)).
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from faintly.core import Hashing, Plan
from faintly.core.plan import MAX_BITS, MAX_MAPS
from faintly.errors import InvalidPlan
from faintly.mechanisms import ghosts
from faintly.mechanisms import parameters as require
from faintly.mechanisms.projection_choice import constants
from faintly.mechanisms.projection_choice.constants import Odds, Shape
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.tables import ENTRY_BYTES
from faintly.primitives import noise
from faintly.primitives.hashing import LEAST_ROW_BITS, POLYNOMIALS, LinearBins

FORMS = ("dense", "bins", "unsigned")
ROUNDINGS = ("independent", "systematic")
NAMES = ("form", "groups", "bins", "top", "threshold", "tokens", "rounding")
DENSE_GROUPS = 256  # the default: within 5 % of infinitely many at every epsilon up to 1
MAX_DENSE_GROUPS = 8192  # a hash counts its 32-bit words in one byte
MAX_BIN_GROUPS = 256  # one word each
MAX_BIN_TOKENS = 4096  # the exact constants of bins take a second there, and grow fast
MAX_SLOTS = 2**20  # a client scores every slot
BIN_WORK = 512  # tokens times groups up to which more groups are worth their work
TABLE_WORK = 1024  # the same in table mode, where a place is a few parities and no hash
MOST_ROW_BITS = LEAST_ROW_BITS + len(POLYNOMIALS) - 1
MAX_CELL_BITS = 31  # of code and map: with the sign they fit 4 bytes
OPEN_BITS = 8  # of the codes of an open universe, at least: they only have to spread keys


def calibrate(request: Request) -> Calibrated:
    """Return the integers for a request, or raise with the rule it breaks."""
    options = {name: value for name, value in request.options.items() if value is not None}
    form = _form(request, options)
    _check_values(form, request.values)
    rounding = options.pop("rounding", "independent")
    shape = _shape(request, form, options)
    top = options.pop("top", None)
    require.none_left(options, "projection-choice", "form, groups, bins, top and rounding")
    require.one_of(rounding, "rounding", ROUNDINGS)
    if top is None:
        top = constants.best_top(shape, request.budget.epsilon)
    require.integer(top, "top", 1, shape.most)
    epsilon = noise.exact(request.budget.epsilon)
    parameters = {
        "form": form,
        "groups": shape.groups,
        "bins": shape.bins,
        "top": top,
        "threshold": noise.response_threshold(epsilon, top, shape.slots),
        "tokens": shape.tokens,
        "rounding": rounding,
    }
    return Calibrated(parameters=parameters, hashing=_hashing(request, shape, top))


def _form(request: Request, options: dict[str, Any]) -> str:
    form = options.pop("form", None)
    if form is None:
        own = request.family in (None, "prf") and "groups" not in options
        return "bins" if request.sparsity == 1 and request.decode == "direct" and own else "dense"
    return str(require.one_of(form, "form", FORMS))


def _shape(request: Request, form: str, options: dict[str, Any]) -> Shape:
    """Return the sizes of a form: as asked, or those of the least variance."""
    tokens, epsilon = request.sparsity, request.budget.epsilon
    groups, bins = options.pop("groups", None), options.pop("bins", None)
    if form == "dense":
        if bins not in (None, 1):
            raise InvalidPlan(f"the dense form has one bin, got {bins!r}; use form bins")
        groups = DENSE_GROUPS if groups is None else groups
        require.power_of_two(groups, "groups", MAX_DENSE_GROUPS)
        return Shape(tokens, groups)
    signed = form == "bins"
    _check_tokens(tokens)
    table = request.decode == "table"
    one = tokens == 1 and signed and groups in (None, 1) and options.get("top") in (None, 1)
    if one and not table:
        options["top"] = 1
        groups = 1
        bins = constants.slot_bins(epsilon, MAX_SLOTS // 2) if bins is None else bins
    if groups is None:
        work = TABLE_WORK if table else BIN_WORK
        many = (64, 16, 4, 1) if table else (16, 4, 1)
        groups = next(one for one in many if one * tokens <= work or one == 1)
    require.power_of_two(groups, "groups", MAX_BIN_GROUPS)
    most = MAX_SLOTS // groups // (2 if signed else 1)
    if bins is None and table:
        bins = _table_bins(request, Shape(tokens, groups, signed=signed), most)
    if bins is None:
        # Signed bins are for items that few hold: with a share of all of them one bin is best.
        share = 0.0 if signed else request.share
        bins = constants.best_bins(tokens, groups, epsilon, signed=signed, share=share, most=most)
    require.integer(bins, "bins", 1 if signed and not table else 2, most)
    return Shape(tokens, groups, bins, signed)


def _table_bins(request: Request, one: Shape, most: int) -> int:
    """Return the power of two of bins whose n·Var is least, ghosts included (see `least_alike`).

    Bins whose ghosts the memory cannot keep small come last.
    """

    def costs(bins: int) -> tuple[bool, float, float]:
        """Return whether ghosts are large, and n·Var at the share and at a key nobody holds."""
        shape = replace(one, bins=bins)
        top = constants.best_top(shape, request.budget.epsilon)
        odds = Odds.unrounded(shape, top, request.budget.epsilon)
        unheld = constants.unheld_variance(shape, odds)
        try:
            made = _codes(request, shape, top, unheld)
        except InvalidPlan:
            return True, math.inf, math.inf
        strength = constants.ghost_strength(shape, top, shared=request.universe.size is None)
        large = ghosts.in_errors(strength, made.maps, request.clients, unheld) > ghosts.LARGEST
        added = ghost_variance(shape, top, request.universe.size, request.clients, made)
        shared = constants.shared_variance(shape, odds, request.share)
        return large, shared + added, unheld + added

    choices = {1 << width: costs(1 << width) for width in range(1, most.bit_length())}
    least = min(large for large, *_ in choices.values())
    return constants.least_alike(
        {
            bins: (shared, unheld)
            for bins, (large, shared, unheld) in choices.items()
            if large == least
        }
    )


def _check_values(form: str, values: str) -> None:
    if form == "unsigned" and values == "signed":
        raise InvalidPlan(
            "form unsigned has no report for a negative value; plan for values nonnegative or "
            "set, or use form bins"
        )


def _check_tokens(tokens: int) -> None:
    if tokens > MAX_BIN_TOKENS:
        raise InvalidPlan(
            f"bins are for a sparsity of at most {MAX_BIN_TOKENS}, got {tokens}; use form dense"
        )


def likelihood_ratio(shape: Shape, top: int, rounded: int) -> Fraction:
    """Return how much likelier one of the best slots is than one of the others."""
    return Fraction(rounded * (shape.slots - top), top * (noise.FULL - rounded))


def _hashing(request: Request, shape: Shape, top: int) -> Hashing:
    linear = request.decode == "table"
    family = request.family or ("linear" if linear else "prf")
    if family == "blake2s":
        raise InvalidPlan(
            "projection-choice is private for every hash, so it has no use for blake2s; "
            "use family prf"
        )
    if family == "prf":
        return Hashing(family=family)
    if not _is_dense(shape) and not linear:
        raise InvalidPlan(
            "the forms with bins are linear by table alone; use form dense, or family prf"
        )
    if not _is_dense(shape):
        require.power_of_two(shape.bins, "bins", MAX_SLOTS)
    odds = Odds.unrounded(shape, top, request.budget.epsilon)
    return _codes(request, shape, top, constants.unheld_variance(shape, odds))


def ghost_variance(
    shape: Shape, top: int, size: int | None, clients: int, hashing: Hashing
) -> float:
    """Return n·κ/(J·2^D): what ghosts add to n·Var where everybody holds the same k items."""
    energy = constants.ghost_energy(shape, top, shared=size is None)
    return clients * energy / (hashing.maps * 2**hashing.bits)


def _is_dense(shape: Shape) -> bool:
    return shape.bins == 1 and shape.signed


def _row_bits(shape: Shape) -> tuple[int, int]:
    """Return the fewest and the most bits of rows; with bins, both are what shifting allows.

    A row is shifted once for each bit of a bin, and once more for a sign.
    """
    if _is_dense(shape):
        return 1, MAX_BITS
    return max(LEAST_ROW_BITS, shape.bins.bit_length() - 1 + shape.signed), MOST_ROW_BITS


def _codes(request: Request, shape: Shape, top: int, variance: float) -> Hashing:
    """Return code bits and maps that keep ghosts small, or all that the memory holds.

    Bits or maps that the request fixes are kept; intervals widen by the ghosts that are left.
    """
    size = request.universe.size
    width = shape.bins.bit_length() - 1
    fewest_rows, most_rows = _row_bits(shape)
    least = OPEN_BITS if size is None else (size - 1).bit_length()
    least = max(least, fewest_rows + width)
    alone = shape.tokens < 3 and size is not None and _is_dense(shape)  # two make no ghost
    fewest = 1 if alone else ghosts.FEWEST
    if request.maps is not None:
        require.power_of_two(request.maps, "maps", MAX_MAPS)
    strength = constants.ghost_strength(shape, top, shared=size is None)
    maps = request.maps or max(fewest, ghosts.least_maps(strength, request.clients, variance))
    energy = constants.ghost_energy(shape, top, shared=size is None)
    codes = ghosts.least_codes(energy, request.clients, variance, size)
    bits = request.bits or max(least, math.ceil(math.log2(max(1.0, codes)) - math.log2(maps)))
    # Of signed bins both signs are counted.
    each = ENTRY_BYTES if _is_dense(shape) or not shape.signed else 2 * ENTRY_BYTES
    limit = min(MAX_CELL_BITS, (request.memory // each).bit_length() - 1)
    if not request.maps:
        # One large ghost is worse than many small ones, so bits give way before maps.
        maps = min(maps, 1 << max(0, limit - (request.bits or least)))
    if not request.bits:
        bits = min(bits, max(least, limit - maps.bit_length() + 1))
    if bits + maps.bit_length() - 1 > (MAX_CELL_BITS if request.bits and request.maps else limit):
        raise InvalidPlan(
            f"{maps} maps of 2^{bits} codes take more than {2**limit * each >> 20:,} MiB; use "
            "decode direct with family prf"
        )
    bits = min(bits, MAX_BITS, most_rows + width)
    if bits - width < fewest_rows:
        raise InvalidPlan(
            f"{shape.bins} bins need codes of at least {fewest_rows + width} bits, got {bits}"
        )
    return Hashing(family="linear", bits=bits, maps=maps)


def checked(plan: Plan) -> dict[str, Any]:
    """Return the parameters of a plan, or refuse those that this mechanism cannot honour."""
    given = require.named(plan, NAMES)
    require.one_of(given["form"], "form", FORMS)
    require.one_of(given["rounding"], "rounding", ROUNDINGS)
    dense, signed = given["form"] == "dense", given["form"] != "unsigned"
    require.power_of_two(given["groups"], "groups", MAX_DENSE_GROUPS if dense else MAX_BIN_GROUPS)
    most = MAX_SLOTS // given["groups"] // (2 if signed else 1)
    require.integer(given["bins"], "bins", 1 if signed else 2, 1 if dense else most)
    if type(given["tokens"]) is not int or given["tokens"] != plan.sparsity:
        raise InvalidPlan(f"tokens must be the sparsity {plan.sparsity}, got {given['tokens']!r}")
    if not dense:
        _check_tokens(given["tokens"])
    shape = Shape(given["tokens"], given["groups"], given["bins"], signed)
    require.integer(given["top"], "top", 1, shape.most)
    require.integer(given["threshold"], "threshold", 1, noise.FULL - 1)
    if likelihood_ratio(shape, given["top"], given["threshold"]) <= 1:
        raise InvalidPlan("threshold leaves the best slots no likelier than the others")
    _check_values(given["form"], plan.values)
    _check_hashing(plan, shape, dense=dense)
    return given


def _check_hashing(plan: Plan, shape: Shape, *, dense: bool) -> None:
    if plan.hashing.family == "blake2s":
        raise InvalidPlan("projection-choice has the families linear and prf")
    if plan.hashing.linear and not dense:
        if plan.decode != "table":
            raise InvalidPlan("the forms with bins are linear by table alone; use family prf")
        require.integer(shape.bins, "bins", 2, MAX_SLOTS)
        require.power_of_two(shape.bins, "bins", MAX_SLOTS)
        fewest, most = _row_bits(shape)
        rows = LinearBins(plan.hashing.bits, shape.bins, shape.signed).row_bits
        if not fewest <= rows <= most:
            width = plan.hashing.bits - rows
            raise InvalidPlan(
                f"{shape.bins} bins need codes of {fewest + width} to {most + width} bits, got "
                f"{plan.hashing.bits}"
            )
    map_bits = max(1, plan.hashing.maps).bit_length() - 1
    if plan.decode == "table" and plan.hashing.bits + map_bits > MAX_CELL_BITS:
        raise InvalidPlan(f"bits and maps together may take {MAX_CELL_BITS} bits; use fewer")
