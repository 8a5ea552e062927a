"""Metrics: pure functions from counts to scores, one family a file, found through the registry."""

__all__: list[str] = []
