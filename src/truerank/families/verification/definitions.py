"""Verification metrics, a file each or one for a few alike: importing it registers them."""

from truerank.families.verification import (
    area,
    eer,
    min_dcf,
    rates,
)

__all__ = ["area", "eer", "min_dcf", "rates"]
