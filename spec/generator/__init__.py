"""Makes spec/vectors: python -m spec.generator [--check]."""
