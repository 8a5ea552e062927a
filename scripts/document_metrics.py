"""Write docs/reference/metrics.md: every metric, its question, parameters, range and source.

python scripts/document_metrics.py
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from truerank.core import registry
from truerank.core.metric import FAMILIES, Definition, in_order
from truerank.metrics.description import parameters, span

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"

HEAD = """# Metrics

This page defines every metric that truerank computes. To choose one, read [which metric answers
my question?](../concepts/which-metric.md) first; `truerank metrics NAME` prints the same facts
with all parameters explained.

```python
import truerank

labels = ["a", "a", "a", "b", "b"]
rows = [[0.0], [1.0], [5.0], [4.0], [4.5]]
result = truerank.evaluate(
    rows, labels, metrics=["hit@1,3", "map@r"], distance="euclidean"
)
for name, score in result.items():
    print(name, round(score.value, 3))
#> hit@1 0.6
#> hit@3 1.0
#> map@r 0.4
```

## How metrics are named and averaged

A metric is a string, `name@k,key=value`: `map@r`, `hit@10`, `map@10,divisor=min`. Several
cut-offs or values make several metrics: `hit@1,5,10` is three. `all` stands for every metric that
applies to the data; why the others do not is in `result.skipped`. Names of other libraries are
understood, such as `precision_at_1`, `cmc@5` and `tpr@fpr=0.01`
([list](../guides/coming-from-other-tools.md)).

Ranking and hierarchical metrics are means over the mated queries, those with a relevant item in
the gallery (or over classes, with `average="class"`). Where distances tie they have [three
values](../concepts/ties.md): lower bound, expected value and upper bound. R is a query's number
of relevant items, without the query itself and without junk.

**Recall has two meanings.** `hit@k` is 1 if *any* relevant item is among the first k;
metric-learning papers call it Recall@k, and tables print it so. `recall@k` is the *share* of the
relevant items among the first k, as in information retrieval. `R@1` is `hit@1`.

Below, ↑ means that higher is better, ↓ that lower is better. Parameters are shown with their
defaults; one in brackets has none and may be left out.

- `k`, `r`: the rank up to which items count, a number or each query's R.
- `level`: the level of the labels at which items are relevant: a number (1 is the coarsest), a
  name, or `mean`.
- `far`: the share of negative pairs, or of unmated queries, that may be accepted; `tau`: a
  threshold on the distance.
- `fp`, `integral`, `scale`: how GOM counts and integrates ([open sets](../concepts/open-set.md)).
"""

FAMILY_TITLES = {
    "ranking": ("Ranking metrics", ""),
    "hierarchy": (
        "Hierarchical and graded metrics",
        "For [labels of several levels](../guides/taxonomy.md), or graded judgements.",
    ),
    "verification": (
        "Verification metrics",
        "About pairs and one threshold: [faces and speakers](../guides/faces-and-speakers.md).",
    ),
    "openset": (
        "Open-set metrics",
        "About queries that may have no relevant item: [open sets](../concepts/open-set.md).",
    ),
    "gom": (
        "GOM: retrieval and verification together",
        "Thresholds run over an axis from 0 to 1, (1 - s)/2 for cosines s.",
    ),
    "consistency": ("Threshold consistency", ""),
    "clustering": (
        "Clustering metrics",
        "Of k-means with as many clusters as classes. NMI is high for random embeddings: [which "
        "metric](../concepts/which-metric.md).",
    ),
    "trials": ("Lists of trials", "For `truerank.verify` with folds, as in LFW."),
}
"""Title and introduction of each family's section."""

QUESTIONS = {
    "precision": "How many of the first k items are relevant?",
    "r_precision": "How many of the first R items are relevant?",
    "map": "Are the relevant items ranked before the others?",
    "hit": "Is a relevant item among the first k?",
    "recall": "How many of the relevant items are among the first k?",
    "mrr": "At which rank is the first relevant item?",
    "minp": "At which rank is the last relevant item?",
    "bpref": "How good is the ranking of the judged items, if many are unjudged?",
    "h_ap": "Is the ranking good, if near misses count in part?",
    "sum_wap": "Is the ranking good at every level?",
    "asi": "Does each prefix of the ranking contain the items that it should, level by level?",
    "ndcg": "Are items of higher grades ranked first?",
    "auc": "Are positive pairs nearer than negative pairs?",
    "best_f1": "How good are the decisions about pairs at the best threshold?",
    "eer": "How large are the errors at the threshold at which both rates are equal?",
    "min_dcf": "What do errors cost at the best threshold?",
    "tar": "How many positive pairs are accepted, if few negative pairs may be?",
    "threshold": "Which threshold gives this FAR?",
    "fmr": "How many negative pairs does a threshold accept?",
    "fnmr": "How many positive pairs does a threshold reject?",
    "dir": "How many mated queries are found first and accepted, if few unmated ones may be?",
    "far": "How many unmated queries does a threshold accept?",
    "ttr": "How many mated queries get any answer?",
    "ftr": "How many unmated queries get any answer?",
    "fnir": "How many mated queries are not identified?",
    "mrp": "How well are the accepted relevant items ranked?",
    "mvp": "How many relevant items are accepted, and how few others?",
    "mrep": "Are both retrieval and verification right at a threshold, or at all of them?",
    "mfr": "How many items does an unmated query accept?",
    "mrep_max": "How high is mReP at its best threshold?",
    "mvp_max": "How high is mVP at its best threshold?",
    "tau_max": "Which threshold is the best one for mReP?",
    "tau_nz": "Up to which threshold is there no false accept?",
    "opis": "Does one threshold serve all classes alike?",
    "nmi": "Do clusters match the classes?",
    "ami": "Do clusters match the classes, corrected for chance?",
    "pairwise_f1": "Do pairs in one cluster belong to one class?",
    "accuracy": "How many decisions are correct at a threshold chosen on other folds?",
}
"""What each metric answers, in one line."""
MOST_EXAMPLES = 2
"""Examples that are shown of a metric; `truerank metrics NAME` has all of them."""

TAIL = """
See also: [which metric answers my question?](../concepts/which-metric.md), [confidence
intervals](../concepts/statistics.md), [glossary](glossary.md).

This page is written by `python scripts/document_metrics.py`.
"""


def page() -> str:
    """The page as text."""
    sources: dict[str, int] = {}
    parts = [HEAD]
    for family in FAMILIES:
        title, introduction = FAMILY_TITLES[family]
        parts.append(f"## {title}\n")
        if introduction:
            parts.append(f"{introduction}\n")
        parts += [section(one, sources) for one in in_order() if one.family == family]
    listed = [f"{number}. {source}." for source, number in sources.items()]
    return "\n".join([*parts, "## Sources\n", *listed]) + "\n" + TAIL


def section(metric: Definition, sources: dict[str, int]) -> str:
    """What a metric answers, its definition, and one line each of its facts."""
    shown = [f"`{text}`" for text in metric.examples if text != metric.name][:MOST_EXAMPLES]
    known = parameters(metric)
    number = sources.setdefault(metric.citation, len(sources) + 1)
    facts = [
        f"{arrowed(span(metric))}. Source: [{number}](#sources).",
    ]
    if known:
        facts.append(f"Parameters: {known}." + f" As in {', '.join(shown)}." * bool(shown))
    lines = [
        f"**{title(metric)}.** {QUESTIONS[metric.name]} *Definition:* {metric.definition}.\n",
        *(f"- {fact[0].upper()}{fact[1:]}" for fact in facts),
    ]
    return f"### `{metric.name}`\n\n" + "\n".join(map(wrapped, lines)) + "\n"


def arrowed(words: str) -> str:
    """A range with an arrow for its better end."""
    return words.replace(", higher is better", " ↑").replace(", lower is better", " ↓")


def title(metric: Definition) -> str:
    """The title with the name that tables print: Mean average precision (mAP)."""
    first = metric.examples[0]
    name = registry.field_names([first])[first].partition("@")[0]
    words = f"{metric.title[0].upper()}{metric.title[1:]}"
    if metric.name == "hit":
        return f"{words.removesuffix(')')}, {name}@k)"
    return words if name.lower() in words.lower() else f"{words} ({name})"


def wrapped(line: str) -> str:
    """A line of Markdown, broken at spaces."""
    indent = "  " if line.startswith("- ") else ""
    text = textwrap.fill(
        line, 110, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    text = re.sub(r" (\S+)\n( *)([-+*>] )", r"\n\2\1 \3", text)  # a sign would begin a list
    return text + "\n" * line.endswith("\n")


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(TARGET)
