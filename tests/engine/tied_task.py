"""Ninety rows with ties and with one large class, and the bits of their scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tests import registered
from tests.quiet import evaluate

ROWS = np.random.default_rng(0).standard_normal((90, 4)).astype(np.float32)
ROWS[70:] = ROWS[:20]
LABELS = np.concatenate([np.arange(40) % 10, np.full(50, 3)])
METRICS = [*registered.ranking(), "precision@5", "hit@2"]


def fingerprint(**options: Any) -> str:
    """Every number of every score, to the last bit."""
    result = evaluate(ROWS, LABELS, metrics=METRICS, **options)
    return json.dumps(result.to_dict()["scores"])
