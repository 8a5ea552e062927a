"""The definitions of clustering metrics."""

from __future__ import annotations

from truerank.core.metric import Definition, register

__all__: list[str] = []

_REALITY = "Musgrave, Belongie & Lim, A Metric Learning Reality Check, ECCV 2020"

for _name, _title, _text, _source in (
    (
        "nmi",
        "normalised mutual information",
        "information that k-means clusters and classes share, over the mean of their entropies",
        f"Vinh, Epps & Bailey, JMLR 2010; why not to trust it: {_REALITY}",
    ),
    (
        "ami",
        "adjusted mutual information",
        "the same, less what random clusters of the same sizes share: 0 for luck, 1 at best",
        "Vinh, Epps & Bailey, Information Theoretic Measures for Clusterings Comparison, JMLR 2010",
    ),
    (
        "pairwise_f1",
        "pairwise F1 of clusters",
        "harmonic mean of precision and recall of the pairs in one cluster as pairs of one class",
        "Manning, Raghavan & Schuetze, Introduction to Information Retrieval, 2008, chapter 16",
    ),
):
    register(
        Definition(
            _name,
            _title,
            _text,
            _source,
            range=(-1.0, 1.0) if _name == "ami" else (0.0, 1.0),
            counted="row",
            ties="none: rows are clustered, not ranked",
            family="clustering",
            examples=(_name,),
        )
    )
