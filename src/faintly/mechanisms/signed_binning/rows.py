"""The four rows of the paper's parameter table, as integers with their theorems.

row      unit    bins                       bound on the change of the bins
event    event   ε²k/4                      one item moves one bin by at most 2
l1       l1      ε²k/L²                     L, in unbiasedly rounded steps (ratio 1+ε/(L·steps))
squeeze  l1      √(ε²k/(L·ln(1/δ)))         3√(bL'·ln(2b/δ)) except with probability δ over seeds
user     user    1                          2·clip
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from faintly.core import EventLevel, Hashing, Plan, UserLevel, WithinL1
from faintly.core.plan import OPEN_MAPS, SEED_BYTES, Terms
from faintly.core.report import fields_below
from faintly.errors import BoundDoesNotApply, InvalidPlan, UnsupportedUnit
from faintly.mechanisms import parameters as require
from faintly.mechanisms.request import Calibrated, Request
from faintly.primitives import noise

UNITS = {"event": EventLevel, "l1": WithinL1, "squeeze": WithinL1, "user": UserLevel}
STEPS = {
    "event": 16,  # rounding adds at most 1/(4·16²), a thousandth, to a value's variance
    "user": 16,
    "l1": 256,  # the noise ratio 1+ε/(L·steps) then costs under 0.4 % at ε/L = 1
    "squeeze": 2**16,  # the least that keeps L' = L + 2k/steps close to L
}
MAX_STEPS = 2**20
MAX_BINS = 4096  # 16 KiB of report at 4 bytes per bin
MAX_RANGE = 2**31 - 1  # a field 0..2·range fits 32 bits
FLOAT_BYTES = 4  # what the paper spends on one bin
THEOREMS = {
    "event": "signed_binning.proof.md, Theorem 1 (one bin changes by at most two units)",
    "l1": "signed_binning.proof.md, Theorem 2 (rounded steps, ratio 1 + ε/(L·steps))",
    "squeeze": "signed_binning.proof.md, Theorem 3 (random signs squeeze the change)",
    "user": "signed_binning.proof.md, Theorem 4 (clipping bounds the change)",
}
SQUEEZED = (*require.SEED_CONDITIONS, "a vector has at most as many items as the plan's sparsity")
NAMES = ("row", "bins", "steps", "clip", "range", "noise")


def calibrate(request: Request) -> Calibrated:
    """Return the integers of the best row for the request."""
    options = dict(request.options)
    row = options.pop("row", None) or _row_for(request, options)
    require.one_of(row, "row", UNITS)
    if not isinstance(request.unit, UNITS[row]):
        raise UnsupportedUnit(f"row {row} of signed-binning does not protect {request.unit}")
    hashing = _hashing(request, row)
    bins = _bins(request, row, options.pop("bins", "paper"), options.pop("max_bytes", None))
    steps = options.pop("steps", STEPS[row])
    cap = options.pop("cap", request.sparsity)
    if cap is not None and not (isinstance(cap, int | float) and 0 < cap < math.inf):
        raise InvalidPlan(f"cap must be none or a number above 0, got {cap!r}")
    require.none_left(options, "signed-binning")
    parameters = _parameters(request, row, bins, steps, cap)
    return Calibrated(parameters=parameters, hashing=hashing)


def _row_for(request: Request, options: dict[str, Any]) -> str:
    if isinstance(request.unit, EventLevel):
        return "event"
    if isinstance(request.unit, UserLevel):
        return "user"
    squeezable = request.budget.delta > 0 and request.decode == "direct"
    if not squeezable or request.family in ("linear", "prf"):
        return "l1"
    try:
        squeezed = _predicted(request, "squeeze", options)
    except BoundDoesNotApply:
        return "l1"
    return "squeeze" if squeezed < _predicted(request, "l1", options) else "l1"


def _predicted(request: Request, row: str, options: dict[str, Any]) -> float:
    options = {**options, "row": row}
    made = calibrate(replace(request, family=None, options=options)).parameters
    return _variance(made, request.sparsity)


def _variance(made: dict[str, Any], sparsity: int) -> float:
    """Return the n·Var of noise and collisions at a key that nobody holds."""
    spread = noise.laplace_variance(made["noise"]) / made["steps"] ** 2
    return float(spread + sparsity / made["bins"])


def _hashing(request: Request, row: str) -> Hashing:
    own = "linear" if request.decode == "table" else ("blake2s" if row == "squeeze" else "prf")
    family = request.family or own
    if row == "squeeze" and family != "blake2s":
        raise BoundDoesNotApply(
            "the squeezed bound is a probability over the hash, so it needs fresh keyed BLAKE2s "
            f"(a linear hash made the true delta 60 to 180 times the claim), not {family}; "
            "use --family blake2s --decode direct"
        )
    if family != "linear":
        return Hashing(family=family)
    size = request.universe.size
    if size is None:
        # Folding 4n codes keeps a collision of two random keys below 1 in 4n per map.
        own_bits = min(24, max(16, (4 * request.clients - 1).bit_length()))
        return Hashing(family=family, bits=request.bits or own_bits, maps=request.maps or OPEN_MAPS)
    bits = request.bits or max(1, (size - 1).bit_length())
    return Hashing(family=family, bits=bits, maps=request.maps or 1)


def _bins(request: Request, row: str, wanted: Any, max_bytes: int | None) -> int:
    linear = _hashing(request, row).family == "linear"
    if row == "user":
        return 1
    paper = paper_bins(row, request)
    if wanted == "paper":
        # The linear family needs a power of two; the next one above costs no accuracy.
        return 1 << (paper - 1).bit_length() if linear else paper
    if wanted == "best":
        return _best_bins(request, row, linear, max_bytes or 5 + FLOAT_BYTES * paper)
    if not isinstance(wanted, int) or not 1 <= wanted <= MAX_BINS:
        raise InvalidPlan(f"bins must be paper, best or between 1 and {MAX_BINS}, got {wanted!r}")
    if linear and wanted & (wanted - 1):
        nearest = 1 << round(math.log2(wanted))
        raise InvalidPlan(
            f"in the linear family bins must be a power of two, got {wanted}; use {nearest}, "
            "or --decode direct --family prf"
        )
    return wanted


def paper_bins(row: str, request: Request) -> int:
    """Return the paper's number of bins for a row, within its condition."""
    epsilon, k = request.budget.epsilon, request.sparsity
    if row == "event":
        bins = epsilon**2 * k / 4
    elif row == "l1":
        bins = epsilon**2 * k / require.l1_distance(request.unit) ** 2
    elif row == "squeeze":
        if request.budget.delta == 0:
            raise BoundDoesNotApply("the squeeze row needs delta above 0; give --delta")
        reach = require.l1_distance(request.unit)
        bins = math.sqrt(epsilon**2 * k / (reach * math.log(1 / request.budget.delta)))
    else:
        bins = 1
    return min(MAX_BINS, max(1, math.floor(bins)))


def _best_bins(request: Request, row: str, linear: bool, max_bytes: int) -> int:
    """Return the number of bins with the least predicted variance within the bytes."""
    counts = range(1, min(MAX_BINS, 4 * request.sparsity) + 1)
    seed_bytes, costs = SEED_BYTES["blake2s" if row == "squeeze" else "prf"], {}
    for bins in [one for one in counts if not (linear and one & (one - 1))]:
        try:
            made = _parameters(request, row, bins, STEPS[row], request.sparsity)
        except BoundDoesNotApply:
            continue
        if fields_below(2 * made["range"] + 1, bins, seed_bytes).record_bytes <= max_bytes:
            costs[bins] = _variance(made, request.sparsity)
    if not costs:
        raise InvalidPlan(f"no number of bins fits {max_bytes} bytes; allow more")
    return min(costs, key=lambda bins: costs[bins])


def _parameters(
    request: Request, row: str, bins: int, steps: int, cap: float | None
) -> dict[str, Any]:
    _check_steps(row, steps)
    clip = None
    if row == "user":
        reach = math.sqrt(2 * request.sparsity * math.log(4 * request.clients / request.failure))
        clip = math.ceil(min(reach, cap if cap is not None else math.inf) * steps)
    bound = _ratio_bound(request, row, bins, steps, clip)
    thresholds = noise.laplace_thresholds(bound)
    decay = -math.log(float(bound))
    tail = math.ceil(math.log(10 * request.clients * bins / request.failure) / decay)
    reach_steps = clip if clip is not None else request.sparsity * steps
    if reach_steps + tail > MAX_RANGE:
        raise InvalidPlan("the bins would need more than 32 bits each; use fewer steps")
    return {
        "row": row,
        "bins": bins,
        "steps": steps,
        "clip": clip,
        "range": reach_steps + tail,
        "noise": thresholds,
    }


def _check_steps(row: str, steps: int) -> None:
    if not isinstance(steps, int) or not 1 <= steps <= MAX_STEPS or steps & (steps - 1):
        raise InvalidPlan(f"steps must be a power of two up to {MAX_STEPS}, got {steps!r}")
    if row == "squeeze" and steps < STEPS["squeeze"]:
        raise BoundDoesNotApply(
            f"the squeezed bound needs at least {STEPS['squeeze']} steps, got {steps}"
        )


def _ratio_bound(request: Request, row: str, bins: int, steps: int, clip: int | None) -> Fraction:
    """Return the least ratio of neighbouring noise probabilities that keeps the budget."""
    epsilon = noise.exact(request.budget.epsilon)
    if row == "l1":
        per_step = epsilon / (noise.exact(require.l1_distance(request.unit)) * steps)
        return 1 / (1 + per_step)
    return noise.exp_at_least(-epsilon / _largest_change(request, row, bins, steps, clip))


def _largest_change(terms: Terms, row: str, bins: int, steps: int, clip: int | None) -> int:
    """Return how far all bins together can change, in grid steps."""
    if row == "squeeze":
        reach = require.l1_distance(terms.unit)
        return squeezed_steps(reach, terms.sparsity, bins, steps, terms.budget.delta)
    return 2 * steps if row == "event" else 2 * (clip or 0) * bins


def squeezed_steps(reach: float, sparsity: int, bins: int, steps: int, delta: float) -> int:
    """Return 3√(bL'·ln(2b/δ)) in grid steps, or refuse outside the lemma's condition."""
    if delta == 0:
        raise BoundDoesNotApply("the squeeze row needs delta above 0; give --delta")
    require.seeds_delta(delta)
    rounded = reach + 2 * sparsity / steps
    least = math.log(2 * bins / delta)
    if reach / bins < least:
        raise BoundDoesNotApply(
            f"the squeezed sensitivity needs distance/bins >= log(2*bins/delta); "
            f"got {reach / bins:.4g} < {least:.4g}. Use fewer bins, a larger delta, or row l1."
        )
    # One extra step covers the rounding of this float expression.
    return math.ceil(3 * math.sqrt(bins * rounded * least) * steps) + 1


def loss(
    plan: Plan, row: str, bins: int, steps: int, clip: int | None, *, thresholds: Sequence[int]
) -> Fraction:
    """Return the privacy loss that the thresholds prove for the plan's unit."""
    ratio = noise.step_ratio(thresholds)
    if row == "l1":
        return (ratio - 1) * noise.exact(require.l1_distance(plan.unit)) * steps
    return noise.log_at_least(ratio) * _largest_change(plan, row, bins, steps, clip)


def tail_steps(thresholds: Sequence[int]) -> int:
    """Return how far the noise reaches before it no longer shows in a 64-bit float."""
    return math.ceil(40 / -math.log(float(noise.carry_ratios(thresholds)[0])))


def checked(plan: Plan) -> dict[str, Any]:
    """Return the parameters of a plan, or refuse those that break a rule."""
    given = require.named(plan, NAMES)
    row = given["row"]
    if not isinstance(row, str) or row not in UNITS or not isinstance(plan.unit, UNITS[row]):
        raise InvalidPlan(f"row {row!r} of signed-binning does not protect {plan.unit}")
    bins = require.integer(given["bins"], "bins", 1, MAX_BINS)
    steps = require.integer(given["steps"], "steps", 1, MAX_STEPS)
    _check_steps(row, steps)
    reach = require.integer(given["range"], "range", 1, MAX_RANGE)
    if plan.hashing.linear and bins * reach > MAX_RANGE:
        raise InvalidPlan("bins times range must fit 31 bits: a cell's weight can be that large")
    if plan.hashing.linear and bins & (bins - 1):
        raise InvalidPlan(f"in the linear family bins must be a power of two, got {bins}")
    if row == "squeeze" and plan.hashing.family != "blake2s":
        raise InvalidPlan("the squeeze row needs the blake2s family")
    if row == "user":
        require.integer(given["clip"], "clip", 1, MAX_RANGE)
        if bins != 1:
            raise InvalidPlan(f"the user row has one bin, got {bins}")
    elif given["clip"] is not None:
        raise InvalidPlan(f"the {row} row does not clip; clip must be null")
    thresholds = require.integers(given["noise"], "noise", range(1, 41), 1, noise.FULL - 1)
    if thresholds[-1] > noise.FULL // 2:
        # A draw would take very long; calibration stays far below.
        raise InvalidPlan("the last noise threshold must be at most 2^31")
    return given | {"noise": thresholds}
