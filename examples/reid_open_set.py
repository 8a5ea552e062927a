"""Re-identification with cameras, junk and unknown people, and a threshold for deployment.

For engineers whose system must identify a person or reject an unknown one. The data are random:
100 enrolled people and 300 unknown ones, seen by four cameras, each of which shifts the embeddings.
"""

import numpy as np

import truerank

rng = np.random.default_rng(1)
people, cameras = rng.normal(size=(400, 32)), 0.6 * rng.normal(size=(4, 32))


def photograph(who):
    camera = rng.integers(len(cameras), size=len(who))
    return people[who] + cameras[camera] + 0.5 * rng.normal(size=(len(who), 32)), camera


enrolled = np.repeat(np.arange(100), 8)
gallery, gallery_cameras = photograph(enrolled)
labels = np.where(rng.random(len(enrolled)) < 0.1, -1, enrolled)  # -1: cut off by its box


def search(who, metrics):
    embeddings, camera = photograph(who)
    junk = {"query_groups": camera, "gallery_groups": gallery_cameras, "junk_labels": [-1]}
    side = {"gallery": gallery, "gallery_labels": labels}
    return truerank.evaluate(embeddings, who, **side, **junk, metrics=metrics)


# Choose the threshold on some people and evaluate it on others; from 100 on they are unknown.
chosen = search(np.r_[0:50, 100:250], ["dir@far=0.05"])["dir@far=0.05"]
tau = f"{chosen.threshold:.4f}"
metrics = ["hit@1", "map", "dir@far=0.05", "mrep", "mfr", f"dir@tau={tau}", f"far@tau={tau}"]
print(f"threshold {tau}, chosen for a false alarm on 5 % of other unknown people")
for name, score in search(np.r_[50:100, 250:400], metrics).items():
    print(f"{name:14} {score.value:6.1%} of {score.n} queries")
