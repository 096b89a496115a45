"""Published methods to compare with, each a mechanism in its own file."""
