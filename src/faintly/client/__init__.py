"""The client: checks the plan, keeps the ledger, randomizes and encodes reports."""

from faintly.client.bulk import randomize_all
from faintly.client.client import Client
from faintly.client.ledger import Ledger
from faintly.client.policy import Policy

__all__ = ["Client", "Ledger", "Policy", "randomize_all"]
