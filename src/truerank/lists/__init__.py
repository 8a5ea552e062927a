"""lists: what a search engine returned, judged by every ranking metric; and what its index loses.

neighbours, scores      names.py, returned.py    rows of the gallery, place after place
the rules of the task   prepared.py, places.py   junk out, repeated and unknown ones wrong
tie groups              places.py                what was not returned ties behind the list
scores                  evaluated.py             truerank.scoring does the rest
"""

from truerank.lists.evaluated import evaluate_lists

__all__ = ["evaluate_lists"]
