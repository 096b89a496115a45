"""Bytes to core types and back, strict and total. spec/ is the definition."""
