"""The neutral bottom: what metrics are made of and what becomes of them; it imports nothing above.

Tie groups, folds, scores with their replicates and curves, metrics with their definitions.
"""

from __future__ import annotations

__all__: list[str] = []
