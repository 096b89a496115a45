"""Does a plan keep its promise? Exact enumeration, and samples of the real client."""

from faintly.audit.external import ExternalClient
from faintly.audit.run import Audit, Finding, audit

__all__ = ["Audit", "ExternalClient", "Finding", "audit"]
