"""Epochs: numbered periods, in each of which a person reports once."""

from faintly.errors import InvalidInput

MAX_EPOCH = 2**53 - 1  # every JSON reader keeps integers up to here exactly


def check_epoch(number: int) -> int:
    """Return an epoch, or raise `InvalidInput`."""
    if type(number) is not int or not 0 <= number <= MAX_EPOCH:
        raise InvalidInput("an epoch is an integer from 0 to 2^53 - 1")
    return number
