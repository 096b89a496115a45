"""How well projection-choice estimates: exact constants, from laws of sums of random signs.

k tokens fall into b bins of each of G groups, with random signs (or, unsigned, without).
X_gj is the sum in bin j of group g, and N_t counts the bins with |X_gj| ≥ t (X_gj ≥ t). The
N best slots then score S(N) = Σ_{t≥1} E[min(N, N_t)] together, and every constant follows:

signed    c = (P/N - (1-P)/(M-N))·S/k                    V0 = 1/(b·c²),        M = 2Gb slots
unsigned  c = (P/N - (1-P)/(M-N))·S/k + (1-P)·G/(M-N) - 1/b
                                                         V0 = (1-1/b)/(b·c²),  M = Gb slots

P is the chance that the report is one of the N best. With one bin N_t is binomial. With more,
P(N_t = m) in one group is k!·[y^k] C(b,m)·A_t(y)^m·B_t(y)^(b-m), where A_t gathers the loads
that reach level t and B_t the others; a sum over O(√k) points of a circle extracts the
coefficient to full precision, since on it all terms are bounded by their values at y = k.

A ghost (see `ghosts`) is largest where everybody holds the same k tokens; in units of a held item's
mean it is, for the

dense     form: the XOR of m tokens' codes, m odd, reads how far the product of their signs agrees
          with the sign of the report
unsigned  codes that differ from an item's in the highest bits alone never have its bin, and read
          -1/(b-1); the XOR of three reads whether the XOR of their bins is that of the report,
          which is as much again where bins and groups are few, and far less where they are many
bins      the XOR of three reads whether the XOR of their bins, with the product of their signs, is
          that of the report; where one slot of one group is the best, which is the worst case,
          that was 1.0, 0.71, 0.46 and 0.25 for 2, 4, 8 and 16 bins, and with the best N below 0.1

letter  word
k       tokens
G       groups
b       bins
N       top
M       slots
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from faintly.core import FloatArray

NEGLIGIBLE = 1e-18  # of probabilities: far below what a sum of a million of them can show
POINTS_PER_DEVIATION = 12  # points of the circle per √k: a Poisson law ends before 12 deviations
LEVELS_AT_ONCE = 2**22  # entries of one block of binomial laws: 32 MiB
KEPT = 256  # curves that stay in memory
SEARCHED = 256  # tokens beyond which searching takes long and gains less than a thousandth
ALIKE = 1.15  # bins whose n·Var is within this of the least err nearly alike
PATIENCE = 3  # steps without gain before a search stops: N is whole, so V0 has small bumps


@dataclass(frozen=True, slots=True)
class Shape:
    """What scores depend on: tokens, groups, bins, and whether bins are signed."""

    tokens: int
    groups: int
    bins: int = 1
    signed: bool = True

    @property
    def places(self) -> int:
        """Return the places of one group: bins, twice where they have signs."""
        return self.bins * (2 if self.signed else 1)

    @property
    def slots(self) -> int:
        """Return M, the number of possible reports."""
        return self.groups * self.places

    @property
    def most(self) -> int:
        """Return the largest sensible N: beyond it signed slots of negative score would enter."""
        return self.groups * self.bins - (0 if self.signed else 1)


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely slots are: `share` for all the best together, the rest for the others."""

    top: int
    share: float  # P

    @classmethod
    def unrounded(cls, shape: Shape, top: int, epsilon: float) -> "Odds":
        """Return P = N·e^ε/Ω, of which plans carry a 32-bit rounding."""
        best = top * math.exp(epsilon)
        return cls(top, best / (best + shape.slots - top))

    def gap(self, shape: Shape) -> float:
        """Return how much likelier one of the best slots is than one of the others."""
        return self.share / self.top - (1 - self.share) / (shape.slots - self.top)


def attenuation(shape: Shape, odds: Odds) -> float:
    """Return c: what one report says about an item of value 1, before it is scaled up."""
    signal = odds.gap(shape) * float(score_curve(shape)[odds.top]) / shape.tokens
    if shape.signed:
        return signal
    others = (1 - odds.share) / (shape.slots - odds.top)
    return signal + others * shape.groups - 1 / shape.bins


def unheld_variance(shape: Shape, odds: Odds) -> float:
    """Return V0: n·Var at an item that nobody holds."""
    spread = 1 / shape.bins if shape.signed else (1 - 1 / shape.bins) / shape.bins
    return spread / attenuation(shape, odds) ** 2


def held_variance(shape: Shape, odds: Odds) -> float:
    """Return V1: n·Var at an item that everybody holds with value 1; with bins, a bound on it.

    Signed bins: of the 2G slots of an item at most G are among the best on average (opposite
    slots never both are, except at score 0, where each is with chance at most 1/2).
    """
    c = attenuation(shape, odds)
    if not shape.signed:
        hit = c + 1 / shape.bins
        return hit * (1 - hit) / c**2
    if shape.bins == 1:
        return 1 / c**2 - 1
    best = min(shape.groups, odds.top)
    others = (1 - odds.share) / (shape.slots - odds.top)
    hit = best * odds.share / odds.top + (2 * shape.groups - best) * others
    return min(1.0, hit) / c**2 - 1


def worst_variance(shape: Shape, odds: Odds) -> float:
    """Return the largest n·Var over all values an item may have, rounding to tokens included.

    A value v makes it V0 + |v|·(V1 + 1 - V0) - v².
    """
    empty, full = unheld_variance(shape, odds), held_variance(shape, odds)
    rise = full + 1 - empty
    if rise <= 0:
        return empty
    return full if rise >= 2 else empty + rise**2 / 4


def shared_variance(shape: Shape, odds: Odds, share: float) -> float:
    """Return the largest n·Var at an item that at most this share of the clients hold."""
    empty = unheld_variance(shape, odds)
    return empty + share * (worst_variance(shape, odds) - empty)


def pair_agreement(shape: Shape, odds: Odds) -> float:
    """Return E[s·s'] of two tokens' signs in the group of the report (one signed bin).

    X² - k is the sum of s·s' over all ordered pairs of tokens, which are all alike, and X² of
    the chosen group follows from Q(N) = Σ_{t≥1} (2t-1)·E[min(N, N_t)], the sum of the N best.
    """
    k, others = shape.tokens, (1 - odds.share) / (shape.slots - odds.top)
    best = float(_dense_curve(shape, squared=True)[odds.top - 1])
    square = odds.gap(shape) * best + 2 * others * shape.groups * k
    return (square - k) / (k * (k - 1))


def best_top(shape: Shape, epsilon: float) -> int:
    """Return the N with the largest |c|, the smallest such N if there are several."""
    most = min(shape.most, shape.groups * shape.tokens)  # tokens score in no more slots
    tops = np.arange(1, most + 1)
    curve = score_curve(shape)[1 : most + 1]
    growth = math.expm1(epsilon)
    omega = tops * growth + shape.slots
    signal = growth / omega * curve / shape.tokens
    if not shape.signed:
        signal = signal + shape.groups / omega - 1 / shape.bins
    return int(tops[np.argmax(signal)])


@lru_cache(maxsize=KEPT)
def score_curve(shape: Shape) -> FloatArray:
    """Return S(N) for N = 0 .. groups·bins."""
    totals = np.zeros(shape.groups * shape.bins + 1)
    if shape.bins == 1:
        totals[1:] = _dense_curve(shape) if shape.signed else shape.tokens
    else:
        # A level that no more than m bins can reach adds nothing beyond N = m.
        for survival in bin_survivals(shape):
            reach = np.cumsum(survival)
            totals[1 : len(reach) + 1] += reach
            totals[len(reach) + 1 :] += reach[-1]
    totals.flags.writeable = False
    return totals


def _dense_curve(shape: Shape, *, squared: bool = False) -> FloatArray:
    """Return S(1), …, S(G) for one bin: N_t is binomial with the chance of |S_k| ≥ t.

    With `squared`, the same of squared scores: level t then counts 2t-1 times.
    """
    reach = _dense_reach(shape)
    if squared:
        reach = reach * (2 * np.arange(1, len(reach) + 1) - 1)[:, None]
    return reach.sum(axis=0)  # not a product of matrices, whose last bit varies by machine


@lru_cache(maxsize=8)
def _dense_reach(shape: Shape) -> FloatArray:
    """Return E[min(N, N_t)] for each level t from 1 (rows) and N from 1 to G (columns)."""
    # |S_k| has the parity of k, so levels come in pairs of equal chance, except for the lowest.
    chances = sign_sum_tail(shape.tokens)[1:]
    reach = np.empty((len(chances), shape.groups))
    size = max(1, LEVELS_AT_ONCE // (shape.groups + 1))
    for start in range(0, len(chances), size):
        law = _binomial_laws(shape.groups, chances[start : start + size])
        survival = np.cumsum(law[:, :0:-1], axis=1)[:, ::-1]  # P(N_t ≥ 1), …, P(N_t ≥ G)
        np.cumsum(survival, axis=1, out=reach[start : start + size])
    return reach


def sign_sum_tail(count: int) -> FloatArray:
    """Return P(|S| ≥ t) for t = 0, 1, … of a sum of `count` fair signs, until it is negligible."""
    reach = min(count, 2 * math.ceil(5 * math.sqrt(count)) + 2)
    values = np.arange(count % 2, reach + 1, 2)
    # Neighbouring terms C(count, (count+s)/2) have a ratio of small integers: no large factorials.
    ratios = (count - values[:-1]) / (count + values[:-1] + 2)
    law = np.concatenate([[1.0], np.cumprod(ratios)])
    law[1:] *= 2
    if count % 2:
        law[0] *= 2
    tails = np.minimum(np.cumsum((law / law.sum())[::-1])[::-1], 1.0)  # sums may round above 1
    out = np.zeros(reach + 1)
    out[values] = tails
    between = values[1:] - 1
    out[between] = tails[1:]
    if count % 2:
        out[0] = 1.0
    return out


def _binomial_laws(trials: int, chances: FloatArray) -> FloatArray:
    """Return one binomial law over 0..trials per chance."""
    counts = np.arange(trials + 1)
    with np.errstate(divide="ignore"):
        yes, no = np.log(chances)[:, None], np.log1p(-chances)[:, None]
    # 0·log 0 stands for an event that is certain, so it is 0.
    shape = len(chances), trials + 1
    low, high = np.zeros(shape), np.zeros(shape)
    left = trials - counts
    np.multiply(counts, yes, out=low, where=np.broadcast_to(counts > 0, shape))
    np.multiply(left, no, out=high, where=np.broadcast_to(left > 0, shape))
    return np.exp(_log_choose(trials, trials) + low + high)


def _log_choose(total: int, most: int) -> FloatArray:
    """Return ln C(total, m) for m = 0..most."""
    steps = np.arange(1, most + 1)
    return np.concatenate([[0.0], np.cumsum(np.log((total - steps + 1) / steps))])


def bin_survivals(shape: Shape) -> list[FloatArray]:
    """Return, for each level t, P(N_t > m) for m = 0, 1, … over all groups."""
    k, b = shape.tokens, shape.bins
    points = POINTS_PER_DEVIATION * math.ceil(math.sqrt(k)) + 20
    angles = 2 * np.pi * np.arange(points) / points
    loads, reached = _load_levels(shape)
    turns = np.exp(1j * np.outer(np.arange(len(loads)), angles)) * loads[:, None]
    back = np.exp(-1j * k * angles) / points
    central = math.exp(k * math.log(k) - k - math.lgamma(k + 1))
    high, low = reached.astype(complex) @ turns, (1 - reached).astype(complex) @ turns
    out = []
    for row, above, below in zip(reached, high, low, strict=True):
        most = min(b, k // max(1, int(np.argmax(row > 0))))
        counts = np.arange(most + 1)
        logs = np.outer(counts, _log(above)) + np.outer(b - counts, _log(below))
        terms = np.exp(_log_choose(b, most)[:, None] + logs) * back
        survival = _over_groups(terms.sum(axis=1).real / central, shape.groups)
        if survival[0] < NEGLIGIBLE * k:
            break
        out.append(survival)
    return out


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.where(values == 0, 1e-300, values))


def _load_levels(shape: Shape) -> tuple[FloatArray, FloatArray]:
    """Return the Poisson law of a bin's load, and P(score ≥ t | load) as [level t - 1, load]."""
    k, mean = shape.tokens, shape.tokens / shape.bins
    most = min(k, math.ceil(mean + POINTS_PER_DEVIATION * math.sqrt(mean)) + 30)
    steps = np.arange(1, most + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(mean / steps))]) - mean
    counts = np.arange(most + 1)
    if not shape.signed:
        return np.exp(logs), (counts[None, :] >= counts[1:, None]).astype(np.float64)
    highest = min(most, math.ceil(POINTS_PER_DEVIATION * math.sqrt(most)) + 10)
    reached = np.zeros((highest, most + 1))
    for load in range(1, most + 1):
        tail = sign_sum_tail(load)[1 : highest + 1]
        reached[: len(tail), load] = tail
    return np.exp(logs), reached


def _over_groups(law: FloatArray, groups: int) -> FloatArray:
    """Return P(N_t > m) for m = 0, 1, … where N_t adds `groups` independent counts."""
    most = (len(law) - 1) * groups
    size = 1 << most.bit_length()
    spectrum = np.fft.rfft(law, size) ** groups
    total = np.fft.irfft(spectrum, size)[: most + 1] if groups > 1 else law
    survival: FloatArray = np.cumsum(total[:0:-1])[::-1].clip(0, 1)
    return survival


def best_bins(
    tokens: int, groups: int, epsilon: float, *, signed: bool, share: float, most: int
) -> int:
    """Return a number of bins of nearly the least n·Var, each with its best N, up to `most`.

    The n·Var is that of items which at most this share of the clients hold (see `least_alike`).
    The search starts at the optimum of many groups and moves by eighths: around the minimum n·Var
    is so flat that finer steps would change it by less than a part in a thousand.
    """
    costs: dict[int, tuple[float, float]] = {}

    def cost(bins: int) -> float:
        if bins not in costs:
            shape = Shape(tokens, groups, bins, signed)
            odds = Odds.unrounded(shape, best_top(shape, epsilon), epsilon)
            costs[bins] = shared_variance(shape, odds, share), unheld_variance(shape, odds)
        return costs[bins][0]

    def clamp(bins: float) -> int:
        return max(1 if signed else 2, min(most, round(bins)))

    growth = math.expm1(epsilon) / 2 if signed else math.exp(epsilon) + 1
    start = best = clamp(tokens * growth)
    if tokens > SEARCHED:
        return start
    cost(start)
    for step in (1.125, 1 / 1.125):
        bins, worse = start, 0
        while worse < PATIENCE:
            following = clamp(bins * step)
            if following == bins:
                following = clamp(bins + (1 if step > 1 else -1))
            if following == bins:
                break
            bins = following
            worse = 0 if cost(bins) < cost(best) else worse + 1
            best = min(best, bins, key=cost)
    return least_alike(costs)


def least_alike(costs: dict[int, tuple[float, float]]) -> int:
    """Return a number of bins, given n·Var at the share and at a key nobody holds for each.

    Most keys are rare: of the bins that err nearly alike at the share, those that err least at a
    key nobody holds are taken.
    """
    least = min(shared for shared, _ in costs.values())
    alike = [bins for bins, (shared, _) in costs.items() if shared <= ALIKE * least]
    return min(alike, key=lambda bins: costs[bins][1])


def slot_bins(epsilon: float, most: int) -> int:
    """Return the bins of one group and one best slot with the least worst case, for one token.

    Here c = (e^ε-1)/Ω with Ω = e^ε-1+2b, and the item's bin is hit with chance (e^ε+1)/Ω.
    """
    bins = np.arange(1, min(most, math.ceil(math.exp(epsilon))) + 1)
    omega = math.expm1(epsilon) + 2.0 * bins
    scale = (omega / math.expm1(epsilon)) ** 2
    empty = scale / bins
    rise = (math.exp(epsilon) + 1) / omega * scale - empty  # V1 + 1 - V0
    worst = empty + np.where(rise >= 2, rise - 1, np.maximum(rise, 0) ** 2 / 4)
    return int(bins[np.argmin(worst)])


def ghost_energy(shape: Shape, top: int, *, shared: bool = False) -> float:
    """Return a bound on κ: the energy of the ghosts of linear hashing, at XORs of a client's items.

    It is G·N·(δ/c)² - k by Parseval, with chances of at most 1 replaced by 1, and the odds cancel.
    Without signs the mean over the bins of a group is subtracted: a factor of 1 - N/M. In an open
    universe keys may share the codes of held ones, which adds k.
    """
    gain = float(score_curve(shape)[top]) / shape.tokens
    spread = 1.0
    if not shape.signed:
        gain -= top / shape.bins
        spread -= top / shape.slots
    own = max(0.0, shape.groups * top * spread / gain**2 - shape.tokens)
    return own + shared * shape.tokens


def ghost_strength(shape: Shape, top: int, *, shared: bool = False) -> float:
    """Return the largest ghost relative to an item's own value; at least 1 for shared codes."""
    if shape.bins == 1:
        own = _dense_ghost(shape, top)
    else:
        own = min(1.0, 4 / shape.bins if shape.signed else 2 / (shape.bins - 1))
    return max(1.0, own) if shared else own


def _dense_ghost(shape: Shape, top: int) -> float:
    """Return the largest mean over the score X = k-2j of the reported slot, relative to m = 1.

    Over all sets of m tokens whose signs add up to X the product of their signs is on average
    φ_m(X), the Krawtchouk polynomial K_m(j)/C(k, m), and φ_1 = X/k is the items' own.
    """
    k = shape.tokens
    if k < 3:
        return 0.0
    reach = _dense_reach(shape)[:, top - 1]
    exact = reach - np.append(reach[1:], 0.0)  # how many of the N best slots have each score
    scores = np.arange(1, len(exact) + 1, dtype=np.float64)
    odd_minus = np.where((k - scores) / 2 % 2 == 1, -1.0, 1.0)  # (-1)^j
    before, now = np.ones(len(scores)), scores / k
    own, largest = float(exact @ now), 0.0
    for m in range(1, k // 2 + 1):
        if m > 1 and m % 2:
            largest = max(largest, abs(float(exact @ now)))
        if (k - m) % 2 and k - m > 1:
            largest = max(largest, abs(float(exact @ (odd_minus * now))))  # φ_(k-m) = (-1)^j·φ_m
        before, now = now, (scores * now - m * before) / (k - m)
    if k % 2:
        largest = max(largest, abs(float(exact @ odd_minus)))  # all k tokens
    return largest / own
