"""Write docs/reference/losses.md from the registry: every loss, formula, use and source.

python scripts/document_losses.py
"""

from __future__ import annotations

from pathlib import Path

from truerank import losses
from truerank.losses.catalogue import MINERS
from truerank.losses.registry import LossEntry, SearchChoice, SearchRange

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "losses.md"

HEAD = """# Losses

**Which one?** How much the loss matters depends on data, network and budget. With every loss
tuned alike, A Metric Learning Reality Check finds the best 1 to 9 % above the contrastive loss in
MAP@R (three data sets, a pretrained network); [our comparison](../results/benchmark.md) finds 41 to
43 % with a small network trained on sketches from random weights for 2,000 iterations, and 6 to 9
% with a linear head on pretrained features. So begin with a plain loss, and compare others with
it by [the protocol](../concepts/protocol.md) on your own data:

| you have, or want | begin with | then try |
| --- | --- | --- |
| pairs and small batches | `contrastive` | `multi_similarity`, `triplet` with a miner |
| class labels, classes that fit into memory | `normalized_softmax` | `arcface`, `proxy_anchor` |
| to optimise the ranking itself | `smooth_ap` | `roadmap`, `recall_at_k`; large batches |
| one threshold that serves all classes | any loss `+ tcm` | `opis` tells whether it helped |
| labels of several levels | `happier` | `csl`, `sum_over_levels` of a plain loss |

Every loss of the metric-learning papers that truerank's protocol compares, by name, behind one call
form: `loss(embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None)`, as in
pytorch-metric-learning. `pip install '.[torch]'` brings what is needed; the losses marked
*truerank* need torch alone.

```python
>>> import torch
>>> from truerank import losses
>>> _ = torch.manual_seed(0)
>>> embeddings = torch.randn(8, 16, requires_grad=True)
>>> labels = torch.tensor([3, 3, 7, 7, -1, -1, 9, 9])
>>> loss = losses.get("smooth_ap")
>>> loss(embeddings, labels).backward()

```

**Labels** are any integers in any order, with any number of samples of each; they are compared as
integers, never as floats. Several columns, (N, L), are a path from coarse to fine: hierarchical
losses take all of it, binary ones the finest label. A loss with proxies is made with
`num_classes=C`, and then takes the labels 0 to C - 1, or with `classes=`, the labels themselves;
any other label is refused. `csl` is made with `hierarchy=`, the path of each fine class.

```python
>>> loss = losses.get("arcface", classes=[3, 7, -1, 9], embedding_size=16)
>>> optimiser = torch.optim.SGD(loss.parameters(), lr=0.1)  # its proxies learn too
>>> loss(embeddings, labels).backward()

```

**Composition.** `a + w * b` is a loss: TCM as a regulariser of any other, for one.
`sum_over_levels` applies a binary loss to every level of a hierarchy (the papers' sigma baselines);
a loss with proxies needs one for each level.

```python
>>> loss = losses.get("recall_at_k") + 0.5 * losses.get("tcm")
>>> paths = torch.stack([labels % 2, labels], dim=1)
>>> by_level = losses.sum_over_levels(losses.get("triplet"))(embeddings, paths)

```

**Miners** choose pairs or triplets; a loss over pairs then counts those alone. `with_miner` puts
one in front of a loss.

```python
>>> loss = losses.with_miner(losses.get("margin"), losses.miner("distance_weighted"))
>>> value = loss(embeddings, labels)

```

**Half precision.** Embeddings in half or bfloat16 are widened to float32 before anything is
computed, also under autocast, and no proxy is ever narrowed. **Not finite**: NaN or infinity in
any embedding makes every loss NaN. **No positives** in a batch, or no pair on the wrong side of a
margin, give 0 with a graph. Not so where negatives count by themselves (`contrastive`,
`snr_contrastive`, `multi_similarity`, `calibration`, `roadmap`, `tcm`, `tcm_minus`, `tcm_prime`),
nor in losses with a further term: a regulariser (`snr_contrastive`, `n_pairs`) or a clustering of
the fine classes (`happier`, `happier_f`, `happier_sum_wap`). Losses with proxies
(*classification* below) compare with these, and are never 0 for lack of positives. **References**
(`ref_emb`, `ref_labels`) replace the batch as what each row is compared with; a loss that
compares with its own proxies refuses them.

**CUDA graphs.** A small network's step is bound by launches, which a recorded CUDA graph saves.
`loss.is_recordable(rows)` says whether the loss of so many rows may be recorded: it is the same
operations whatever the numbers, and nothing is read back. Losses with proxies check each batch's
labels and read the answer one batch later; within `losses.trusted_labels()` they do not, for a loop
that has checked all labels once. A miner in front of a loss makes lists, which cannot be recorded
(`multi_similarity_mined` has its own as masks).

```python
>>> losses.get("triplet").is_recordable(rows=128), losses.get("triplet").is_recordable(rows=1024)
(True, False)
>>> loss = losses.get("cosface", classes=[3, 7, -1, 9], embedding_size=16)
>>> with losses.trusted_labels():
...     value = loss(embeddings, labels)

```

**Cost.** A rank loss adds 1 to 5 % to a training step of a ResNet-50 on a GPU; on a CPU it takes 20
to 90 times less time than its plain formula.

<details markdown="1">
<summary>Time and memory of each, measured</summary>

**Memory.** The rank losses hold one block of (queries, positives, batch) at a time, take its
gradient at once, and keep one batch x batch matrix for backward: less than 1 GB beyond the
embeddings at a batch of 4,000 x 512. `block=` sets the numbers in a block. One thread, batch 256 x
128, 4 of each class, forward and backward, CPU time (`python -m bench.losses`, x86-64 Linux,
November 2026):

| loss | truerank | plain batch x batch x batch | pytorch-metric-learning 2.9 |
|---|---:|---:|---:|
| `smooth_ap` | 11 ms, 5 MB | 719 ms, 274 MB | 550 ms, 343 MB |
| `recall_at_k` | 11 ms, 4 MB | 416 ms, 272 MB | |
| `sup_ap` | 14 ms, 6 MB | 1,270 ms, 401 MB | |
| `happier`, 12 coarse classes | 115 ms, 14 MB | 2,320 ms, 610 MB | |
| `tcm` | 5 ms, 2 MB | | 148 ms, 161 MB |
| `lifted_structure` | 10 ms, 5 MB | | 3,292 ms, 1,043 MB |
| `tuplet_margin` | 6 ms, 2 MB | | 3,783 ms, 853 MB |

On one NVIDIA H200 (`python -m bench.losses --gpu`, torch 2.11, November 2026): forward and backward
of a batch of 4,000 x 512 alone, and what the loss adds to a training step of a ResNet-50 (24.6 M
parameters, 224 px, batch 256, embedding 512, bfloat16 autocast), which takes 55 ms without one.

| loss | 4,000 x 512 | peak memory | added to a step |
|---|---:|---:|---:|
| `smooth_ap` | 6.9 ms | 633 MB | 1.7 % |
| `recall_at_k` | 8.4 ms | 591 MB | 1.1 % |
| `sup_ap` | 7.4 ms | 719 MB | 2.9 % |
| `roadmap` | 9.1 ms | 759 MB | 3.1 % |
| `happier`, 12 coarse classes | 780 ms | 931 MB | 5.3 % |
| `tcm` | 3.5 ms | 412 MB | 0.4 % |
| `csl` | 4.8 ms | 198 MB | 6.9 % |

A loss that reads a number back from the GPU makes the step wait, which costs 5 to 8 % here however
little the loss computes; so do `csl` where labels are not trusted and pytorch-metric-learning's
lists of pairs (`contrastive` 7.5 %, `triplet` 5.5 %, `cosface` 5.6 %, `multi_similarity` 6.2 %). So
`contrastive`, `triplet`, `margin`, `normalized_softmax`, `cosface`, `fastap`, `multi_similarity`,
`multi_similarity_mined` and `soft_triple` are computed over whole matrices, to the library's
values, unless pairs are mined from outside or references given; `triplet` up to 256 rows on a GPU
and 50 on a CPU, above which a list is smaller than batch x batch x batch. They wait for nothing,
and a batch of 32 x 128 takes three quarters of the CPU time it took with lists.

</details>

**For a fair comparison** `losses.entry(name)` has what a search needs: defaults, the ranges to
search, whether the loss has parameters of its own and where to search their learning rate, which
labels it takes, and the batch, classes x samples of each.

```python
>>> losses.entry("arcface").search["margin"]
SearchRange(low=0.0, high=90.0, log=False, integer=False)

```

## Every loss

s is cosine similarity, d the Euclidean distance of unit vectors, [x]+ = max(x, 0); sum+ and sum-
run over an anchor's positives and negatives; LSE is log sum exp. Each opens to its formula, source
and search space.

"""

MINER_HEAD = """## Every miner

"""

TAIL = """
## Why some are written here

pytorch-metric-learning's losses are used where they follow their papers, and checked against them
(tests/losses). Release 2.9.0 differs in some, all of which are cases in
tests/conformance/test_loss_conformance.py.

<details markdown="1">
<summary>What differs</summary>

- **SmoothAPLoss** is right only for sorted labels with as many classes as samples of each; two
  perfectly ordered classes of three get a loss above .2 instead of 0. It refuses uneven classes.
- **ThresholdConsistentMarginLoss** ignores ref_emb: positions in the references are looked up in
  the batch.
- **ProxyNCALoss** counts the own proxy in the denominator, which is ProxyNCA++; rows whose
  probability underflows, the hardest ones, are dropped.
- **ArcFaceLoss** has gradients of NaN where a row meets its proxy, **TupletMarginLoss** a loss of
  NaN where two rows of a class agree.
- **AngularLoss** normalises anchors and positives but not negatives; **NPairsLoss** normalises
  where its paper does not.
- **SignalToNoiseRatioContrastiveLoss** takes unit vectors, for which its distance is nearly the
  squared Euclidean one that its paper sets out to replace; holds a tensor of (batch, batch,
  dimensions); and is infinite, with a gradient of NaN, if a row is 0.
- **LiftedStructureLoss** with ref_emb takes rows of the batch for references.
- Pair losses return 0 for a batch with a single pair; losses with proxies turn these into half
  precision, for good, when embeddings are.
- **SoftTripleLoss**'s regulariser needs masks of (classes x centres)^2: 13 GB each for Stanford
  Online Products. **DistanceWeightedMiner** has one normaliser for all anchors: in 512 dimensions
  one close pair leaves the others without a triplet.

</details>

This page is written by `python scripts/document_losses.py`.
"""


def page() -> str:
    """The page as text."""
    entries = [section(losses.entry(name)) for name in losses.names()]
    miners = [
        f"- **`{miner.name}`**: {miner.what}. {searched(miner.search)}{miner.citation}.\n"
        for miner in MINERS.values()
    ]
    return HEAD + "\n".join(entries) + "\n" + MINER_HEAD + "".join(miners) + TAIL


def section(entry: LossEntry) -> str:
    """What, formula and when, and what a protocol needs."""
    classes, samples = entry.batch
    facts = [
        entry.kind,
        "a path of labels" if entry.labels == "path" else "one label",
        f"batch {classes:,} x {samples}",
        f"from {entry.source}",
    ]
    return (
        f"### `{entry.name}`\n\n"
        f"**{entry.title}**. {entry.what} *When:* {entry.when}\n\n"
        '<details markdown="1">\n<summary>Formula, source, search space</summary>\n\n'
        f"`{entry.formula}`  \n"
        f"{entry.citation}.  \n"
        f"*{'; '.join(facts)}. {searched(entry.search, entry.own_lr).strip()}*\n\n"
        "</details>\n"
    )


def searched(search: object, own_lr: SearchRange | None = None) -> str:
    """The search space in words."""
    spaces = dict(search)  # type: ignore[call-overload]
    if own_lr is not None:
        spaces["own learning rate"] = own_lr
    parts = []
    for name, space in spaces.items():
        if isinstance(space, SearchChoice):
            parts.append(f"{name} {', '.join(map(str, space.values))}")
        else:
            parts.append(f"{name} {space.low:g} to {space.high:g}{' (log)' if space.log else ''}")
    return f"Searched: {'; '.join(parts)}. " if parts else ""


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(TARGET)
