"""Verification metrics, a file each or one for a few alike: importing it registers them."""

from truerank.families.verification import (
    area,
    best_f1,
    eer,
    min_dcf,
    rates,
)

__all__ = ["area", "best_f1", "eer", "min_dcf", "rates"]
