"""Statistics: intervals, what chance would give, and tests of differences."""

__all__: list[str] = []
