"""Enumeration asks for the same few laws again and again: remember them."""

from collections.abc import Iterator

import pytest

from faintly.mechanisms.signed_binning import SignedBinning


@pytest.fixture(autouse=True, scope="session")
def _remembered_laws() -> Iterator[None]:
    """Remember the law of a bin by the values in it; their order does not matter to a sum."""
    known, plain = {}, SignedBinning._bin_law

    def bin_law(self, held):
        key = (self.noise, self.steps, self.clip, self.range, tuple(sorted(held)))
        if key not in known:
            known[key] = plain(self, held)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SignedBinning, "_bin_law", bin_law)
        yield
