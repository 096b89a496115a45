"""Helpers for tests, published so that other implementations and applications can use them."""

from faintly.testing.word_sources import GivenWords, HashedWords, RecordedWords, WordsExhausted

__all__ = ["GivenWords", "HashedWords", "RecordedWords", "WordsExhausted"]
