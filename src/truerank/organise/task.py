"""Task: the rules of an evaluation that an organiser keeps, and what is published of it."""

from __future__ import annotations

import os
import secrets
from typing import Any

from truerank import digest, notebook
from truerank.cached import cached_property
from truerank.errors import InputError
from truerank.organise.public import PublicTask, public_result
from truerank.organise.saved import load_task, save_task
from truerank.organise.submissions import evaluate_submission
from truerank.result import Result
from truerank.task import TaskRules
from truerank.typesetting import Table
from truerank.wording import count

__all__ = ["Task"]


class Task(TaskRules):
    __doc__ = TaskRules.__doc__

    def __repr__(self) -> str:
        return "\n".join(["Task", *(f"  {name}: {value}" for name, value in self.facts())])

    def _repr_html_(self) -> str:
        rows = [list(fact) for fact in self.facts()]
        return notebook.block(notebook.table(Table(["Task", ""], rows, words=(0, 1))))

    def facts(self) -> list[tuple[str, str]]:
        """What can be told of a task without naming a label, an id or a group."""
        gallery = "the queries, each without itself"
        facts = [("queries", f"{self.queries:,}")]
        facts.append(("gallery", gallery if self.leave_one_out else count(self.items, "item")))
        if self.levels is not None:
            counts = [len(set(level.codes[0].tolist())) for level in self.levels.columns]
            facts.append(("classes of the queries", " / ".join(f"{n:,}" for n in counts)))
        else:
            facts.append(("relevance", "by judgements"))
        facts += [("never ranked", ", ".join(self.exclusions()))] if self.exclusions() else []
        without = [f"{number:,} {reason}" for reason, number in self.no_mate_counts().items()]
        facts += [("without a mate", f"{', '.join(without)} ({self.no_mate})")] if without else []
        return [*facts, ("commitment", self.commitment or "none")]

    @cached_property
    def salt(self) -> bytes | None:
        """The secret that seals the commitment; None for a task of a file without one."""
        return secrets.token_bytes(digest.SALT_BYTES)

    @property
    def committed(self) -> tuple[dict[str, Any], str]:
        """The rules and the rows, as text, that the commitment binds to."""
        names = [] if self.levels is None else [str(name) for name in self.levels.names]
        rules = {"levels": names, "no_mate": self.no_mate, "unlabelled": self.unlabelled}
        text = digest.canonical_text(self.counted_records(), self.junk_labels, self.mask_records())
        return rules, text

    @cached_property
    def commitment(self) -> str | None:
        """A salted hash of labels and rules, to be published before; None without a salt."""
        return None if self.salt is None else digest.commitment(self.salt, *self.committed)

    def public(self) -> PublicTask:
        """What participants may have: ids and commitment, no label."""
        return PublicTask.of(self, self.commitment)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the task, hidden labels and salt included, to one file that holds no code.

        A task that came from a file without a salt gets one.
        """
        if self.salt is None:
            del self.__dict__["salt"]
            self.__dict__.pop("commitment", None)
        assert self.salt is not None
        save_task(self, self.salt, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Task:
        """Read what save wrote; the digest is checked."""
        task, salt = load_task(path, Task)
        task.__dict__["salt"] = salt
        return task

    def evaluate(
        self, embeddings: Any, ids: Any = None, *, full: bool = False, **options: Any
    ) -> Result:
        """Score a submission.

        Parameters
        ----------
        embeddings : (N, d)
            One row for each id of the task, in any order.
        ids : (N,)
            Whose embedding each row is. Missing, extra and repeated ids are refused. A task
            without ids takes its rows in order, a separate gallery's as `gallery=`.
        full : bool
            Whether the result holds what is known of single queries, as that of
            truerank.evaluate does. Whoever gets it has the hidden labels.
        **options
            gallery, distance, metrics, average, device, threads, confidence, seed, units, progress,
            checkpoint, cluster as in evaluate; gallery_sizes only with `full`, because scores at
            many sizes tell at which ranks the mates are.

        Examples
        --------
        >>> from truerank import Task
        >>> task = Task(["cat", "cat", "dog", "dog"], ids=["a", "b", "c", "d"])
        >>> submission = [[1.0, 0], [0, 1], [0, 2], [2, 0]]
        >>> result = task.evaluate(submission, ids=["d", "a", "b", "c"])
        >>> result["hit@1"].value, result["hit@1"].per_query
        (1.0, None)
        """
        if not full and "gallery_sizes" in options:
            raise InputError(
                "scores at gallery sizes tell at which ranks the mates of a hidden task are, as a "
                "curve does; pass full=True to have them."
            )
        result = evaluate_submission(self, embeddings, ids, **options)
        result.provenance["task_commitment"] = self.commitment
        return result if full else public_result(result)
