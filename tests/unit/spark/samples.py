"""Plans and reports for tests of `faintly.spark`, made from fixed seeds."""

import numpy as np

from faintly import Plan, ReportBatch, make_plan
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import seeded
from faintly.wire import report_v1

SALT = bytes(range(16))


def plan_of(decode: str = "table", **given) -> Plan:
    chosen = {"protect": "event", "epsilon": 1.0, "clients": 50_000, "universe": 1000}
    chosen |= {"sparsity": 4, "decode": decode, "salt": SALT}
    return make_plan(**chosen | given)


def made_up(plan: Plan, count: int, seed: int = 1) -> ReportBatch:
    """Reports that look valid: uniform fields and seeds, which is as fast as it gets."""
    layout, words = mechanism_of(plan).layout, seeded(seed, "reports").words
    limits = np.array(layout.limits, dtype=np.uint64)
    raw = words(count * len(limits)).reshape(count, -1).astype(np.uint64)
    fields = (raw % limits).astype(np.uint32)
    wide = words(2 * count).astype(np.uint64)
    seeds = (
        (wide[::2] | wide[1::2] << np.uint64(32)) >> np.uint64(64 - 8 * layout.seed_bytes)
        if (layout.seed_bytes)
        else np.zeros(count, np.uint64)
    )
    return ReportBatch(plan.digest, seeds, fields)


def records(batch: ReportBatch, plan: Plan) -> np.ndarray:
    return report_v1.pack(batch, mechanism_of(plan).layout)
