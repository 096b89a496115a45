"""Checks that a plan keeps its promise, by exact enumeration and by samples of the real client."""

from faintly.audit.external import ExternalClient
from faintly.audit.run import audit

__all__ = ["ExternalClient", "audit"]
