"""What both sides of a collector's HTTP interface know, beside its refusals."""

import re

DIGEST = re.compile("[0-9a-f]{32}")  # a plan's, in an address
REQUEST_ID_BYTES = 16  # random, and twice as many hexadecimal digits in an address
TOKENS = 10_000  # that one request may ask for; a collector issues them in one transaction
