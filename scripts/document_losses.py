"""Write docs/reference/losses.md from the registry: every loss, formula, use and source.

python scripts/document_losses.py
"""

from __future__ import annotations

from pathlib import Path

from truerank import losses
from truerank.losses.catalogue import MINERS
from truerank.losses.registry import LossEntry

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "losses.md"

HEAD = """# Losses

This page lists the {number} training losses of truerank, with formula and source, for use in your
own loop or in [a fair comparison](../concepts/protocol.md). They are called like those of
pytorch-metric-learning.

```python
import torch
from truerank import losses

torch.manual_seed(0)
embeddings = torch.randn(8, 16, requires_grad=True)
labels = torch.tensor([3, 3, 7, 7, -1, -1, 9, 9])
loss = losses.get("smooth_ap")
loss(embeddings, labels).backward()
```

Install them with `pip install '.[torch]'`.

## Which one?

With every loss tuned alike, A Metric Learning Reality Check finds the best 1 to 9 % above the
contrastive loss in MAP@R. [Our comparison](../results/benchmark.md) finds 41 to 43 % with a small
network trained from random weights, and 6 to 9 % with a linear head on pretrained features. So
begin with a plain loss, and compare others with it on your own data:

| you have, or want | begin with | then try |
| --- | --- | --- |
| pairs and small batches | `contrastive` | `multi_similarity`, `triplet` with a miner |
| class labels, classes that fit into memory | `normalized_softmax` | `arcface`, `proxy_anchor` |
| to optimise the ranking itself | `smooth_ap` | `roadmap`, `recall_at_k`; large batches |
| one threshold that serves all classes | any loss `+ tcm` | `opis` shows whether it helped |
| labels of several levels | `happier` | `csl`, `sum_over_levels` of a plain loss |

## How losses are built and called

**The call** is `loss(embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None)`.
References (`ref_emb`, `ref_labels`) replace the batch as what each row is compared with; a loss
with proxies refuses them.

**Labels** are any integers, with any number of rows each. Several columns, (N, L), are a path
from coarse to fine: hierarchical losses use all of it, others the finest label.

**Losses with proxies** learn one vector or more per class, so they need the classes and their own
optimiser. Give `num_classes=C` for labels 0 to C - 1, or the labels themselves as `classes=`; any
other label is refused. `csl` takes `hierarchy=`, the path of each fine class.

**Sums** are losses: `a + w * b`. `sum_over_levels` applies a loss to every level of a path.
**Miners** choose pairs or triplets, and `with_miner` puts one in front of a loss.

```python
loss = losses.get("arcface", classes=[3, 7, -1, 9], embedding_size=16)
optimiser = torch.optim.SGD(loss.parameters(), lr=0.1)  # for the proxies
loss(embeddings, labels).backward()

regularised = losses.get("recall_at_k") + 0.5 * losses.get("tcm")
paths = torch.stack([labels % 2, labels], dim=1)
by_level = losses.sum_over_levels(losses.get("triplet"))(embeddings, paths)
mined = losses.with_miner(losses.get("margin"), losses.miner("distance_weighted"))
```

**Defaults and search ranges** are in `losses.entry(name)`, with the batch of the loss's paper and
the labels it takes. [The protocol](../concepts/protocol.md) searches these ranges.

```python
print(losses.entry("arcface").search["margin"])
#> SearchRange(low=0.0, high=90.0, log=False, integer=False)
```

## Special cases

- **Half precision.** Embeddings in float16 or bfloat16 are widened to float32, also under
  autocast.
- **NaN or infinity** in any embedding makes every loss NaN.
- **No positives** in a batch, or no pair on the wrong side of a margin, give 0 with a graph.
  Exceptions are losses in which negatives count by themselves (`contrastive`, `snr_contrastive`,
  `multi_similarity`, `calibration`, `roadmap`, `tcm`, `tcm_minus`, `tcm_prime`) or which have a
  further term (`n_pairs`, `happier`, `happier_f`, `happier_sum_wap`). Losses with proxies are
  never 0 for lack of positives.
- **CUDA graphs.** `loss.is_recordable(rows)` says whether the loss of a batch of this many rows
  can be recorded. Losses with proxies check the labels of each batch; within
  `losses.trusted_labels()` they do not. A miner makes lists, which cannot be recorded
  (`multi_similarity_mined` uses masks).

Time and memory, and where releases of pytorch-metric-learning return other values, are in
[measured costs](../results/training-costs.md).

## Every loss

s is cosine similarity, d the Euclidean distance of unit vectors, [x]+ = max(x, 0); sum+ and sum-
run over an anchor's positives and negatives; LSE is log sum exp. *Proxies* marks losses with
parameters to train, *path* those that use several levels of labels.

"""

MINER_HEAD = """## Every miner

"""

TAIL = """
See also: [training options](training.md), [your own loss](../guides/your-own-loss.md), [in your
training loop](../guides/training-loop.md), [losses compared](../results/benchmark.md).

This page is written by `python scripts/document_losses.py`.
"""


def page() -> str:
    """The page as text."""
    first: dict[str, str] = {}
    entries = [section(losses.entry(name), first) for name in losses.names()]
    miners = [f"- **`{one.name}`**: {one.what}. {one.citation}.\n" for one in MINERS.values()]
    head = HEAD.replace("{number}", str(len(entries)))
    return head + "\n".join(entries) + "\n" + MINER_HEAD + "".join(miners) + TAIL


def section(entry: LossEntry, first: dict[str, str]) -> str:
    """What it does and when to use it, its formula and source; `first` has the sources above."""
    above = first.setdefault(entry.citation, entry.name)
    source = entry.citation if above == entry.name else f"Source: as `{above}`"
    marks = [
        *(["proxies"] if entry.kind == "classification" else []),
        *(["path"] if entry.labels == "path" else []),
    ]
    title = f"{entry.title[0].upper()}{entry.title[1:]}"
    marked = f" *({', '.join(marks)})*" if marks else ""
    return (
        f"### `{entry.name}`\n\n"
        f"**{title}.**{marked} {entry.what} *Use:* {entry.when}\n\n"
        f"`{entry.formula}`  \n{source}.\n"
    )


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(TARGET)
