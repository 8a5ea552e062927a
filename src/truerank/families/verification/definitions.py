"""The modules of all verification metrics: importing this one registers them."""

from truerank.families.verification import (
    area,
    best_f1,
    eer,
    min_dcf,
    rates,
)

__all__ = ["area", "best_f1", "eer", "min_dcf", "rates"]
