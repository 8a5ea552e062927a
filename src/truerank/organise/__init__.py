"""For organisers of a competition: hidden labels in, public results and boards out.

A Task holds labels and salt; submissions are aligned by id and scored; what is published names no
label and no single query, and a leaderboard shows no more than noise allows.
"""

from truerank.organise.board import Board
from truerank.organise.checks import check_log, check_submission, warn_of_giveaways
from truerank.organise.entries import list_entries
from truerank.organise.openings import leaderboard
from truerank.organise.public import PublicTask, public_result
from truerank.organise.revealed import check_revealed, reveal
from truerank.organise.saved import is_task
from truerank.organise.task import Task

__all__ = [
    "Board",
    "PublicTask",
    "Task",
    "check_log",
    "check_revealed",
    "check_submission",
    "is_task",
    "leaderboard",
    "list_entries",
    "public_result",
    "reveal",
    "warn_of_giveaways",
]
