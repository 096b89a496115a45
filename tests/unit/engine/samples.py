"""Reports for tests of the engine."""

from faintly.core import ReportBatch
from faintly.mechanisms import mechanism_of
from spec.generator.vectors import plan_of, some_reports


def reports_of(name: str, count: int) -> ReportBatch:
    """Return reports, with fields anywhere in their range, of a plan in `cases`."""
    return some_reports(mechanism_of(plan_of(name)), count)
