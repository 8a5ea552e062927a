"""What a user's own functions are called with: the original's arguments, as tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from truerank.compat import lists
from truerank.compat.sides import Sides
from truerank.space import build, catalogue

__all__ = ["neighbours", "tensors"]


def tensors(sides: Sides, device: Any, compare: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Rows and labels of both sides, and what was said about them."""
    query, reference = sides.tensors(device)
    labels, others = sides.label_tensors(device)
    return {
        "query": query,
        "reference": reference,
        "query_labels": labels,
        "reference_labels": others,
        "ref_includes_query": sides.includes_query,
        "label_comparison_fn": compare,
    }


def neighbours(
    sides: Sides,
    depth: int,
    given: Mapping[str, Any],
    knn_func: Callable[..., Any] | None,
    distance: str,
) -> dict[str, Any]:
    """Lists of neighbours, by the user's function or exact ones, and how many mates there are."""
    import torch

    labels, others = given["query_labels"], given["reference_labels"]
    device = labels.device
    if knn_func is not None:
        apart, places = knn_func(given["query"], depth, given["reference"], sides.includes_query)
    else:
        gallery = None if sides.reference is sides.query else sides.reference
        far, near = lists.nearest(sides, build(distance, sides.query, gallery), depth)
        if catalogue.find(distance).points == "rows":  # squared, as the original's euclidean
            far = far * far
        apart = torch.tensor(far, dtype=torch.float32, device=device)
        places = torch.tensor(near, device=device)
    near_labels = others[places]
    near_labels[places < 0] = float("nan")  # faiss: fewer neighbours than asked for
    lone = torch.tensor(sides.mates <= 0, device=device)
    distinct = torch.tensor(sides.distinct, device=device)
    return {
        "label_counts": (labels[distinct], torch.tensor(sides.counts, device=device)),
        "knn_labels": near_labels,
        "knn_distances": apart,
        "lone_query_labels": labels[distinct][lone[distinct]],
        "not_lone_query_mask": ~lone,
    }
