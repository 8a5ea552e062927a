"""Statistics: what luck alone would give."""

__all__: list[str] = []
