"""Epochs: numbered periods, in each of which a person reports once."""

MAX_EPOCH = 2**53 - 1  # every JSON reader keeps integers up to here exactly
