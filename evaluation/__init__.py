"""How accurate: the paper's experiments and ours, on data whose truth is known."""
