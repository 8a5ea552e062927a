"""Keys of the sentences in a result: digests hold a key, so that a sentence may be reworded.

Every sentence matches one pattern; one that matches none gets a line here, with a key that says
what the sentence says. A digest then changes when a result gives another reason, not when the same
reason is put in other words.
"""

from __future__ import annotations

import re

_COUNT = r"[\d,]+"
_RATE = r"[\d.e-]+"

PATTERNS: dict[str, str] = {
    # Why a score is not defined.
    "far-not-resolved": rf"not defined: {_COUNT} (?:impostors?|negatives?|unmated quer(?:y|ies)) "
    rf"cannot resolve a FAR of {_RATE}; the smallest that they can is {_RATE}",
    "no-unmated-query": "not defined: every query has a (mate|relevant item)",
    "no-classes": "not defined: it compares classes, which relevance= does not name",
    "no-labels": "not defined: there are no labels to compare clusters with",
    "no-vectors-for-k-means": "not defined: k-means needs embeddings and the cosine or euclidean "
    "distance",
    "negatives-need-one-set": "not defined: negatives= draws pairs of one set, and there is a "
    "(gallery of its own|separate gallery)",
    "no-threshold-accepts": "not defined: no pair is nearer than the nearest negative one",
    "empty-threshold-range": "not defined: no thresholds lie between the FAR targets "
    rf"{_RATE} and {_RATE}",
    "distances-outside-gom": r"not defined: thresholds of GOM lie in \[0, 1\], which these "
    "distances leave; ask for scale=minmax",
    # Why there is no interval.
    "few-classes-of-a-level": rf"{_COUNT} class(es)? of level \d+ with a query that counts; an "
    rf"interval needs at least {_COUNT}"
    r"(; a finer level has enough: pass units=\"finer\" \(--units finer\))?",
    "few-classes": rf"{_COUNT} class(es)? with a query that counts; an interval needs at least "
    rf"{_COUNT}"
    r"(; a finer level has enough: pass units=\"finer\" \(--units finer\))?",
    "few-classes-of-unmated-queries": rf"{_COUNT} class(es)? of (queries without a mate|unmated "
    rf"queries); an interval needs at least {_COUNT}",
    "few-classes-to-compare": rf"{_COUNT} class(es)? to compare; an interval of how far classes "
    rf"are apart needs at least {_COUNT}",
    "few-negative-pairs-accepted": rf"{_COUNT} negative pairs? below its threshold; an interval "
    rf"needs at least {_COUNT}",
    "few-unmated-queries-accepted": rf"{_COUNT} (quer(y|ies) without a mate|unmated "
    rf"quer(y|ies)) below its threshold; an interval needs at least {_COUNT}",
    "trials-name-no-classes": r"the list of trials names no people; pass labels \(--labels, a file "
    r"with the columns id and label\), or columns left_label and right_label in the list",
    "every-query-at-the-limit": rf"every query scores {_RATE} %, (which says nothing about the "
    "spread|so that the spread cannot be estimated)",
    "score-at-the-limit": rf"the score is {_RATE} %, (which says nothing about the spread|so that "
    "the spread cannot be estimated)",
    "same-without-any-class": "the score is the same without any class",
    "sampled-negatives": "its negatives are a sample; opis over all of them has one",
    "scale-follows-extremes": "scale=minmax follows the smallest and the largest distance, whose "
    "spread is unknown",
    "place-of-a-maximum": "the place of a maximum jumps, (and how far cannot be told by leaving "
    "classes out|so that a jackknife cannot estimate its spread)",
    "smallest-distance": "the smallest of all distances is no mean, (and leaving classes out says "
    "little of it|so that a jackknife cannot estimate its spread)",
    # Why nothing is told of a smaller gallery, and why there is no test.
    "accepted-item-not-followed": "any item may be the accepted one, and (which are drawn beside "
    "mates is|irrelevant items that are drawn are) not followed",
    "other-clusters": "clusters of a smaller gallery would (be others|differ)",
    "open-grades": "grades leave open which items would stay in a smaller gallery",
    "share-of-pairs": "it counts pairs, (of which a smaller gallery has as large a share|whose "
    "shares a smaller gallery keeps), or it is an integral",
    "few-classes-for-a-test": rf"{_COUNT} class(es)?( of level \d+)?: a test needs at least "
    rf"{_COUNT}"
    r"(; a finer level has enough: pass units=\"finer\" \(--units finer\))?",
    # What is never compared, and why a query has nothing to find.
    "self": "each row itself",
    "shared-ids": "rows that share an id",
    "same-group": "mates of the query's own group",
    "junk-labels": rf"{_COUNT} items? with junk labels",
    "junk-mask": "pairs of the junk mask",
    "singleton": "singleton",
    "all-junk": "all mates junk",
    "not-in-gallery": "not in gallery",
    "unjudged": "unjudged",
    # How intervals were made, and of what.
    "class-bootstrap": rf"class bootstrap with {_COUNT} resamples, ratio estimator",
    "class-bootstrap-and-jackknife": rf"class bootstrap with {_COUNT} resamples, ratio estimator; "
    "jackknife over the classes, each left out where the data set a threshold",
    "query-bootstrap-and-jackknife": rf"query bootstrap with {_COUNT} resamples, ratio estimator; "
    "jackknife over the queries, each left out where the data set a threshold",
    "class-jackknife": "jackknife over the classes, each left out",
    "people-jackknife": rf"delete-group jackknife over {_COUNT} shares of the people",
    "query-bootstrap": rf"query bootstrap with {_COUNT} resamples, ratio estimator",
    "paired-class-bootstrap": "class bootstrap of the paired classes, conditional on this gallery",
    "paired-class-jackknife": "jackknife of the paired classes",
    "paired-class-bootstrap-and-runs": "class bootstrap of the paired classes, conditional on this "
    "gallery, with the variance between runs added",
    "paired-query-bootstrap-and-runs": "query bootstrap of the paired queries, conditional on this "
    "gallery, with the variance between runs added",
    "paired-class-jackknife-and-runs": "jackknife of the paired classes, with the variance between "
    "runs added",
    "paired-people-jackknife": "jackknife of the paired people",
    "this-gallery": "conditional on this gallery",
    "new-data-sets": "expectation over new data sets of the same design: new classes, same sizes",
    "new-people": "expectation over new people, paired in the same way",
}


def key_of(sentence: str) -> str:
    """Return the one key whose pattern matches the whole sentence."""
    keys = [key for key, pattern in PATTERNS.items() if re.fullmatch(pattern, sentence)]
    if len(keys) != 1:
        raise ValueError(f"{sentence!r} matches {keys or 'no pattern'} in {__file__}")
    return keys[0]


def keys_of(value: object) -> object:
    """Return the same value with keys in the place of sentences; None stays None."""
    if isinstance(value, str):
        return key_of(value)
    if isinstance(value, list):
        return [keys_of(part) for part in value]
    if isinstance(value, dict):
        return {key_of(name): part for name, part in value.items()}
    return value
