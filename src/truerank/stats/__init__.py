"""Statistics: what luck alone would give."""
