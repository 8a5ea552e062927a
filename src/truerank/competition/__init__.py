"""Competitions: hidden labels in, public results and leaderboards out.

A Task holds labels and salt; submissions are aligned by id and scored. What is published names
no label and no single query, and a leaderboard shows no more than noise allows.
"""

from __future__ import annotations

from truerank.competition.board import Board
from truerank.competition.leaderboards import (
    check_log,
    check_submission,
    leaderboard,
    warn_of_giveaways,
)
from truerank.competition.submissions import list_entries
from truerank.competition.task import (
    PublicTask,
    Task,
    check_revealed,
    is_task,
    public_result,
    reveal,
)

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
