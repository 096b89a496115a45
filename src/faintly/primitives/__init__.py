"""Sharp tools for mechanisms; whoever uses them directly owns correctness."""
