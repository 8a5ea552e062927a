"""The law of gallery size: what ranking metrics become, on average, among fewer other items.

A query keeps its mates, and of its M others m are drawn without replacement. How many of them come
before a mate is hypergeometric, so that every mean over all sub-galleries is a short sum.
"""

from __future__ import annotations

__all__: list[str] = []
