"""Lists of real indexes, in a process of its own: their OpenMP runtimes must not meet torch's.

    python searching.py vectors.npz found.npz

In: queries and gallery. Out: for each index its lists and distances, and the vectors it stores.
"""

from __future__ import annotations

import sys

import faiss
import numpy as np
from usearch.index import Index

PLACES = 30


def main(source: str, target: str) -> None:
    with np.load(source) as arrays:
        queries, gallery = arrays["queries"], arrays["gallery"]
    faiss.omp_set_num_threads(1)
    dimensions = gallery.shape[1]
    found = {}
    for name, factory in (("flat", "Flat"), ("hnsw", "HNSW8"), ("ivfpq", "IVF16,PQ2x4")):
        index = faiss.index_factory(dimensions, factory)
        index.train(gallery)
        index.add(gallery)
        if name == "ivfpq":
            index.nprobe = 2
            index.make_direct_map()
        if name == "hnsw":
            index.hnsw.efSearch = 4
        distances, lists = index.search(queries, PLACES)
        found |= {f"{name}-lists": lists, f"{name}-scores": distances}
        found[f"{name}-stored"] = index.reconstruct_n(0, len(gallery))
    index = Index(ndim=dimensions, metric="l2sq", dtype="f32")
    index.add(np.arange(len(gallery)), gallery, threads=1)
    matches = index.search(queries, PLACES, threads=1)
    found |= {"usearch-lists": matches.keys, "usearch-scores": matches.distances}
    found["usearch-stored"] = np.stack([index.get(key) for key in range(len(gallery))])
    np.savez(target, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
