"""Drop-in replacements: other libraries' calls, truerank's exact numbers.

Every argument of the original is obeyed or refused with a sentence, never ignored. Where scores
tie, the value is the lower bound, as everywhere in truerank.
"""

from truerank.compat.accuracy_calculator import AccuracyCalculator
from truerank.compat.reid import evaluate_rank

__all__ = ["AccuracyCalculator", "evaluate_rank"]
