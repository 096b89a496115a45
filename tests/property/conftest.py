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
# For scripts/sanitize.sh, which runs the same tests on many builds, some of them slow.
settings.register_profile("brief", settings.get_profile("faintly"), max_examples=20)
settings.load_profile("faintly")
