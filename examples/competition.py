"""A competition: the organiser hides the labels, participants send embeddings with ids.

For organisers. Rows are aligned by id and may be in any order. A submission without some of the ids
is refused, and a constant one gains nothing, because the score is the lower bound over ties.
On the command line this is `truerank task make` and `truerank leaderboard`
(docs/guides/competition.md).
"""

import tempfile
import textwrap
from pathlib import Path

import numpy as np

import truerank

data = truerank.datasets.emoji()
ids = np.array([f"{row:04}.png" for row in range(len(data.labels))])  # no hint at the labels

with tempfile.TemporaryDirectory() as folder:
    hidden = Path(folder, "hidden.task")  # labels and rules in one file, which you keep
    truerank.Task(data.labels, ids=ids, groups=data.families).save(hidden)
    task = truerank.Task.load(hidden)
print(f"{task.queries} queries, committed to by {task.commitment[:16]}...")

# What participants send: embeddings of the images, and ids.
shuffled = np.random.default_rng(0).permutation(len(ids))
submissions = {
    "network": (data.models["efficientnet"][shuffled], ids[shuffled]),
    "thumbnail": (data.models["pixels"], ids),
    "constant": (np.ones((len(ids), 1)), ids),
    "half": (data.models["pixels"][::2], ids[::2]),
}
for name, (embeddings, sent_ids) in submissions.items():
    try:
        score = task.evaluate(embeddings, sent_ids, metrics=["map@r"])["map@r"]
        print(f"{name:10} map@r {score.value:.4f}, by chance {score.chance:.4f}")
    except truerank.InputError as error:
        print(textwrap.fill(f"{name:10} refused: {error}", 80))
