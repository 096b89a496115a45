"""Building blocks of mechanisms. They check little; their callers are responsible for privacy."""
