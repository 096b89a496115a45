"""The client: draws entropy, randomizes, and makes bytes. The one door out."""

from faintly.client.bulk import randomize_all
from faintly.client.client import Client

__all__ = ["Client", "randomize_all"]
