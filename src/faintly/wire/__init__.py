"""Bytes to core types and back, strict and total, and the codes of refusals. spec/ defines them."""
