"""Task: who is relevant to whom, who is junk, and who never meets; every check on what users pass.

Labels, ids, groups and masks come in; for any block of queries the relevant and the excluded
gallery items go out.
"""

from truerank.task.no_mates import NO_MATE_REASONS
from truerank.task.rules import TaskRules

__all__ = ["NO_MATE_REASONS", "TaskRules"]
