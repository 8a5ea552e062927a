"""lists: what a search engine returned, judged by every ranking metric; and what its index loses.

neighbours, scores      names.py, returned.py    rows of the gallery, place after place
the rules of the task   prepared.py, places.py   junk out, repeated and unknown ones wrong
tie groups              places.py                what was not returned ties behind the list
scores                  evaluated.py             truerank.scoring does the rest
which k is enough       settle.py                lists cut shorter
exact rankings          loss.py, cut.py          of full and of stored vectors, cut at k
what is lost            parts.py, spread.py      differences of scores, with intervals
"""

from truerank.lists.evaluated import evaluate_lists
from truerank.lists.loss import index_loss
from truerank.lists.parts import IndexLoss

__all__ = ["IndexLoss", "evaluate_lists", "index_loss"]
