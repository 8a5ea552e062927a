"""Statistics: intervals, what luck alone would give, and tests of differences."""

__all__: list[str] = []
