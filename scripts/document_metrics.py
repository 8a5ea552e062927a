"""Write docs/reference/metrics.md: every metric, its parameters, range and citation.

python scripts/document_metrics.py
"""

from __future__ import annotations

from pathlib import Path

from truerank.core import metric as definitions
from truerank.metrics.description import parameters, span

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"

HEAD = """# What truerank computes

Ranking and hierarchical metrics are means over the queries that have at least one mate in the
gallery (or over classes, with `average="class"`), and triples lower <= expected <= upper where
scores tie ([why](../concepts/ties.md)). R is a query's number of mates after removal of itself
and of junk. Metrics that depend on a threshold have pages of their own:
[verification](../guides/faces-and-speakers.md) and [open set](../concepts/open-set.md).

Metrics are named by strings, `name@k,key=value`: `map@r`, `hit@10`, `map@10,divisor=min`. Other
libraries' names are understood too: `mean_average_precision_at_r`, `precision_at_1`, `cmc@5`,
`rank1`, `R@1` (which is `hit@1`, with a note, and is refused where judgements say what is
relevant), `tpr@fpr=0.01` and `tmr@fmr=0.01` (`tar@far=0.01`), `mean_reciprocal_rank`; so are those
of
[trec_eval, ir_measures, MTEB and ranx](../guides/coming-from-other-tools.md#names-of-metrics).
Several cut-offs or values make several metrics: `hit@1,5,10` is three,
`tar@far=0.1,0.01` two. `all` stands for the default metrics and one form of every other one that
applies to the data; why others do not is said
once for each reason, below the table and in `result.skipped`. In printed tables an arrow says that
lower is better.

Parameters are shown with their defaults; one in brackets has none and may be left out.
`truerank metrics NAME`, or `truerank.metrics.describe`, says what each of them means.

| metric | what it is | definition | parameters | range | source |
| --- | --- | --- | --- | --- | --- |
"""

TAIL = """
Three names are kept apart that papers mix: **hit@k** is 1 if any mate is among the first k (the CMC
curve, "Recall@k" in metric-learning papers), **precision@k** is the share of the first k that are
mates, **recall@k** is the share of the mates that are among the first k. For k = 1, hit and
precision agree.

This page is written by `python scripts/document_metrics.py`.
"""


def page() -> str:
    """The page as text."""
    rows = []
    for name in definitions.names():
        entry = definitions.entry(name)
        strings = ", ".join(f"`{text}`" for text in entry.examples)
        cells = (entry.title, entry.definition, parameters(entry), span(entry), entry.citation)
        rows.append("| " + " | ".join([strings, *cells]) + " |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(TARGET)
