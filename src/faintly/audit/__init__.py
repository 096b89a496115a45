"""Checks that a plan keeps its promise, by exact enumeration and by samples of the real client."""

from faintly.audit.external import ExternalClient
from faintly.audit.run import Audit, audit
from faintly.mechanisms.checks import Finding

__all__ = ["Audit", "ExternalClient", "Finding", "audit"]
