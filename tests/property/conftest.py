"""Hypothesis explores the same examples on every machine, and keeps no files."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "faintly",
    max_examples=60,
    deadline=None,  # a slow machine is no failure
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("faintly")
