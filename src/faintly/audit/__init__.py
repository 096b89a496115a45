"""Does a plan keep its promise? Exact enumeration, and samples of the real client."""

from faintly.audit.run import Audit, Finding, audit

__all__ = ["Audit", "Finding", "audit"]
