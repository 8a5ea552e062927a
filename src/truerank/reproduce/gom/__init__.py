"""Wang et al. (2020): GOM, retrieval and verification in one metric. Little training."""

from __future__ import annotations

__all__: list[str] = []
