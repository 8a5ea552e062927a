"""The catalogue of losses and miners: one entry each, in the order of the page that lists them.

Search ranges of the losses that "A Metric Learning Reality Check" compares are its ranges for
CUB and Cars; those for SOP were wider. Otherwise they lie around the values of the loss's own
paper.
"""

from __future__ import annotations

from typing import Any

from truerank.losses.registry import LossEntry, MinerEntry, SearchChoice, SearchRange

LR = SearchRange(1e-6, 1.0, log=True)
MARGIN = SearchRange(-0.2, 2.0)
SHARE = SearchRange(0.0, 1.0)
SCALE_100 = SearchRange(0.01, 100.0)
SCALE_200 = SearchRange(0.01, 200.0)
TEMPERATURE = SearchRange(1e-3, 0.1, log=True)

PROXIES = ("num_classes", "embedding_size")
LIBRARY = "pytorch-metric-learning"
SURROGATE = {"temperature": 0.01, "rho": 100.0, "delta": 0.05, "start": 0.5, "offset": None}
SURROGATE_SEARCH = {
    "temperature": TEMPERATURE,
    "rho": SearchRange(1.0, 1000.0, log=True),
    "delta": SearchRange(0.0, 0.2),
}
CALIBRATION = {
    "positive_margin": 0.9,
    "negative_margin": 0.5,
    "positive_weight": 1.0,
    "negative_weight": 1.0,
    "denominator": "hard",
    "indicator": True,
}
CALIBRATION_SEARCH = {
    "positive_margin": SearchRange(0.5, 1.0),
    "negative_margin": SearchRange(0.0, 0.8),
}
HAPPIER = {
    "alpha": 1.0,
    "relevance": "level",
    "cluster_weight": 0.1,
    "cluster_temperature": 0.05,
    **SURROGATE,
    "pull_back": True,
    "block": None,
}
HAPPIER_SEARCH = {
    "cluster_weight": SHARE,
    "cluster_temperature": SearchRange(0.01, 1.0, log=True),
    **SURROGATE_SEARCH,
}

RAMZI_2021 = (
    "Ramzi et al., Robust and Decomposable Average Precision for Image Retrieval, NeurIPS 2021"
)
RAMZI_2022 = (
    "Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval, ECCV 2022"
)
ZHANG_2024 = (
    "Zhang et al., Threshold-Consistent Margin Loss for Open-World Deep Metric Learning, ICLR 2024"
)
MUSGRAVE = "Musgrave, Belongie & Lim, A Metric Learning Reality Check, ECCV 2020"


def _embedding(name: str, title: str, **more: Any) -> LossEntry:
    return LossEntry(name=name, title=title, **more)


def _classification(name: str, title: str, **more: Any) -> LossEntry:
    options: dict[str, Any] = {
        "kind": "classification",
        "batch": (32, 1),
        "own_lr": LR,
        "needs": PROXIES,
        "takes_references": False,
    }
    return LossEntry(name=name, title=title, **{**options, **more})


def _regulariser(name: str, title: str, **more: Any) -> LossEntry:
    options: dict[str, Any] = {"kind": "regulariser", "batch": (1000, 4)}
    return LossEntry(name=name, title=title, **{**options, **more})


_ENTRIES = (
    _embedding(
        "contrastive",
        "contrastive loss",
        what="Pulls positive pairs within a margin and pushes negative ones beyond another.",
        formula="mean+ [d - m+]+ + mean- [m- - d]+, d the Euclidean distance of unit vectors, each "
        "mean over the pairs where it is above 0",
        when="The first baseline to try; hard to beat once its margins are searched.",
        citation="Hadsell, Chopra & LeCun, Dimensionality Reduction by Learning an Invariant "
        f"Mapping, CVPR 2006; not squared, as in {MUSGRAVE}",
        build="pml:contrastive",
        defaults={"positive_margin": 0.0, "negative_margin": 1.0},
        search={"positive_margin": MARGIN, "negative_margin": MARGIN},
        source=LIBRARY,
    ),
    _embedding(
        "triplet",
        "triplet loss",
        what="A negative must be farther from the anchor than a positive, by a margin.",
        formula="mean [d(a,p) - d(a,n) + m]+ over the triplets where it is above 0",
        when="The other baseline; with the miner `semihard` it is FaceNet's.",
        citation="Weinberger, Blitzer & Saul, Distance Metric Learning for Large Margin Nearest "
        "Neighbor Classification, NIPS 2006",
        build="pml:triplet",
        defaults={"margin": 0.05},
        search={"margin": MARGIN},
        source=LIBRARY,
    ),
    _classification(
        "proxy_nca",
        "ProxyNCA",
        what="Softmax over the distances to proxies, without the own proxy in the denominator.",
        formula="mean -log( e^(-t d(x,p_y)) / sum_{z != y} e^(-t d(x,p_z)) ), d the squared "
        "distance of unit vectors, t the scale",
        when="Quick training with few samples of each class; can go below 0.",
        citation="Movshovitz-Attias et al., No Fuss Distance Metric Learning using Proxies, ICCV "
        "2017",
        build="proxies:ProxyNCA",
        defaults={"scale": 1.0, "own_in_denominator": False},
        search={"scale": SCALE_100},
    ),
    _embedding(
        "margin",
        "margin loss",
        what="Positives within beta - m, negatives beyond beta + m; beta is learned.",
        formula="sum over triplets of [d(a,p) - beta + m]+ + [beta - d(a,n) + m]+, divided by the "
        "number of terms above 0",
        when="When the right distance differs between data sets; pair it with the miner "
        "`distance_weighted`.",
        citation="Wu et al., Sampling Matters in Deep Embedding Learning, ICCV 2017",
        build="pml:margin",
        defaults={
            "margin": 0.2,
            "beta": 1.2,
            "nu": 0.0,
            "learn_beta": True,
            "num_classes": None,
        },
        search={"margin": MARGIN, "beta": MARGIN},
        own_lr=LR,
        source=LIBRARY,
    ),
    _classification(
        "normalized_softmax",
        "normalized softmax",
        what="Classifies by cosine similarity to one proxy per class.",
        formula="mean -log softmax_y(cos(x, p) / temperature)",
        when="A strong, simple baseline when each class has a few samples.",
        citation="Zhai & Wu, Classification is a Strong Baseline for Deep Metric Learning, BMVC "
        "2019",
        build="pml:normalized_softmax",
        defaults={"temperature": 0.05},
        search={"temperature": SearchRange(1e-2, 1e2, log=True)},
        source=LIBRARY,
    ),
    _classification(
        "cosface",
        "CosFace",
        what="Normalized softmax with a margin taken off the own class's cosine.",
        formula="mean -log softmax_y(s (cos - m [own class]))",
        when="Faces, and anything with many classes and a verification threshold.",
        citation="Wang et al., CosFace: Large Margin Cosine Loss for Deep Face Recognition, CVPR "
        "2018",
        build="pml:cosface",
        defaults={"margin": 0.35, "scale": 64.0},
        search={"margin": SHARE, "scale": SCALE_200},
        source=LIBRARY,
    ),
    _classification(
        "arcface",
        "ArcFace",
        what="Normalized softmax with a margin, in degrees, added to the own class's angle.",
        formula="mean -log softmax_y(s cos(angle + m [own class])); past 180 degrees - m, "
        "cos(angle) - m sin(m), which keeps it decreasing",
        when="As CosFace; the usual first choice for faces.",
        citation="Deng et al., ArcFace: Additive Angular Margin Loss for Deep Face Recognition, "
        "CVPR 2019",
        build="proxies:ArcFace",
        defaults={"margin": 28.6, "scale": 64.0},
        search={"margin": SearchRange(0.0, 90.0), "scale": SCALE_200},
    ),
    _embedding(
        "fastap",
        "FastAP",
        what="Average precision from soft histograms of the squared distances.",
        formula="1 - mean_q (1/R) sum_bins h+ H+ / H, H cumulative",
        when="Average precision at a cost linear in the batch for each query; large batches.",
        citation="Cakir et al., Deep Metric Learning to Rank, CVPR 2019",
        build="pml:fastap",
        defaults={"bins": 10},
        search={"bins": SearchRange(2, 250, integer=True)},
        takes_references=False,
        source=LIBRARY,
    ),
    _embedding(
        "snr_contrastive",
        "signal-to-noise ratio contrastive loss",
        what="The contrastive loss on var(b - a)/var(a), with a pull towards zero-mean embeddings.",
        formula="mean+ [d - m+]+ + mean- [m- - d]+, each mean over the pairs where it is above 0, "
        "+ regularizer mean |sum of x|; d = var(b - a)/var(a) of the embeddings as they are, not "
        "of unit vectors; an anchor without variance is left out",
        when="An alternative distance for the contrastive loss; large embeddings.",
        citation="Yuan et al., Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric "
        "Learning, CVPR 2019",
        build="pairs:SNRContrastive",
        defaults={"positive_margin": 0.0, "negative_margin": 1.0, "regularizer": 0.1},
        search={
            "positive_margin": SearchRange(0.0, 2.0),
            "negative_margin": SearchRange(0.0, 2.0),
            "regularizer": SHARE,
        },
        normalizes=False,
    ),
    _embedding(
        "multi_similarity",
        "multi-similarity loss",
        what="Soft maxima over each anchor's negatives and over its far positives.",
        formula="mean (1/a) log(1 + sum+ e^(-a(s - base))) + (1/b) log(1 + sum- e^(b(s - base)))",
        when="A good default among pair losses.",
        citation="Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric "
        "Learning, CVPR 2019",
        build="pml:multi_similarity",
        defaults={"alpha": 2.0, "beta": 50.0, "base": 0.5},
        search={"alpha": SCALE_100, "beta": SCALE_100, "base": SHARE},
        source=LIBRARY,
    ),
    _embedding(
        "multi_similarity_mined",
        "multi-similarity loss with its miner",
        what="Multi-similarity over the pairs that its own miner finds hard.",
        formula="multi_similarity over positives with s < max s- + epsilon and negatives with "
        "s > min s+ - epsilon",
        when="As multi_similarity, when most pairs have become easy.",
        citation="Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric "
        "Learning, CVPR 2019",
        build="composition:MinedMultiSimilarity",
        defaults={"alpha": 2.0, "beta": 50.0, "base": 0.5, "epsilon": 0.1},
        search={"alpha": SCALE_100, "beta": SCALE_100, "base": SHARE, "epsilon": SHARE},
        source=LIBRARY,
    ),
    _classification(
        "soft_triple",
        "SoftTriple",
        what="Normalized softmax with several centres per class; a regulariser merges them.",
        formula="mean -log softmax_y(la (S - margin [own class])), S = sum_k softmax_k(s_k/gamma) "
        "s_k, + regularizer x mean distance of a class's centres / 2",
        when="Classes with several appearances.",
        citation="Qian et al., SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, "
        "ICCV 2019",
        build="pml:soft_triple",
        defaults={
            "centers_per_class": 10,
            "la": 20.0,
            "gamma": 0.1,
            "margin": 0.01,
            "regularizer": 0.2,
        },
        search={"la": SCALE_100, "gamma": SCALE_100, "regularizer": SHARE, "margin": SHARE},
        source=LIBRARY,
    ),
    _classification(
        "sphereface",
        "SphereFace",
        what="Softmax with the own class's angle multiplied; the embedding's length is kept.",
        formula="mean -log softmax_y(s |x| f), f = (-1)^k cos(m angle) - 2k for the own class, "
        "k = floor(m angle / 180 degrees), else cos",
        when="To compare with the face literature; harder to train than CosFace and ArcFace.",
        citation="Liu et al., SphereFace: Deep Hypersphere Embedding for Face Recognition, CVPR "
        "2017",
        build="pml:sphereface",
        defaults={"margin": 4, "scale": 1.0},
        search={"margin": SearchChoice((1, 2, 3, 4)), "scale": SCALE_200},
        normalizes=False,
        source=LIBRARY,
    ),
    _embedding(
        "angular",
        "angular loss",
        what="Bounds the angle at each negative of the triangle with a positive pair.",
        formula="mean over positive pairs of log(1 + sum_n e^(4 tan^2(alpha) (a + p).n - "
        "2 (1 + tan^2(alpha)) a.p)), unit vectors",
        when="As an addition to n_pairs or lifted_structure; insensitive to scale.",
        citation="Wang et al., Deep Metric Learning with Angular Loss, ICCV 2017",
        build="pairs:Angular",
        defaults={"alpha": 45.0},
        search={"alpha": SearchRange(30.0, 60.0)},
    ),
    _embedding(
        "lifted_structure",
        "lifted structure loss",
        what="Compares each positive pair with all negatives of both rows.",
        formula="mean over positive pairs of [log(sum_n e^(m- - d(a,n)) + sum_n e^(m- - d(p,n))) "
        "+ d(a,p) - m+]+^2 / 2",
        when="To compare with the early literature.",
        citation="Oh Song et al., Deep Metric Learning via Lifted Structured Feature Embedding, "
        "CVPR 2016",
        build="pairs:LiftedStructure",
        defaults={"positive_margin": 0.0, "negative_margin": 1.0},
        search={"positive_margin": MARGIN, "negative_margin": MARGIN},
    ),
    _embedding(
        "n_pairs",
        "N-pairs loss",
        what="One pair of each class; each anchor must find its own positive among all.",
        formula="mean -log softmax_i(a_i . p_j) over the classes j, + regularizer mean |x|^2",
        when="Batches of two samples of very many classes; not on normalised embeddings.",
        citation="Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS "
        "2016",
        build="pairs:NPairs",
        defaults={"regularizer": 0.002},
        batch=(16, 2),
        search={"regularizer": SearchRange(1e-5, 0.1, log=True)},
        takes_references=False,
        normalizes=False,
    ),
    _embedding(
        "nt_xent",
        "NT-Xent",
        what="Each positive pair as a softmax against the anchor's negatives.",
        formula="mean over positive pairs of -log( e^(s_p/t) / (e^(s_p/t) + sum_n e^(s_n/t)) )",
        when="As in self-supervised training; a large batch gives it more negatives.",
        citation="Chen et al., A Simple Framework for Contrastive Learning of Visual "
        "Representations, ICML 2020; Sohn, Improved Deep Metric Learning with Multi-class N-pair "
        "Loss Objective, NIPS 2016",
        build="pairs:NTXent",
        defaults={"temperature": 0.07},
        search={"temperature": SearchRange(0.01, 1.0, log=True)},
    ),
    _embedding(
        "tuplet_margin",
        "tuplet margin loss",
        what="Each positive against all of the anchor's negatives, with slack for the positive.",
        formula="mean over positive pairs of log(1 + sum_n e^(s (cos(a,n) - cos(angle(a,p) - m))))",
        when="Noisy positives: the slack, in degrees, keeps the hardest from dominating.",
        citation="Yu & Tao, Deep Metric Learning with Tuplet Margin Loss, ICCV 2019",
        build="pairs:TupletMargin",
        defaults={"margin": 5.73, "scale": 64.0},
        search={"margin": SearchRange(0.0, 30.0), "scale": SCALE_200},
    ),
    _classification(
        "proxy_nca_plus_plus",
        "ProxyNCA++",
        what="ProxyNCA as a probability: the own proxy is in the denominator.",
        formula="mean -log softmax_y(-t d(x,p)), d the squared distance of unit vectors, t = 1 / "
        "temperature",
        when="Instead of proxy_nca; its proxies want a high learning rate.",
        citation="Teh, DeVries & Taylor, ProxyNCA++: Revisiting and Revitalizing Proxy "
        "Neighborhood Component Analysis, ECCV 2020",
        build="proxies:ProxyNCA",
        defaults={"scale": 9.0, "own_in_denominator": True},
        search={"scale": SCALE_100},
    ),
    _classification(
        "proxy_anchor",
        "ProxyAnchor",
        what="Each proxy as an anchor against the rows of the batch, by soft maxima.",
        formula="(1/|P+|) sum_p log(1 + sum+ e^(-a(s - m))) + (1/|P|) sum_p log(1 + sum- "
        "e^(a(s + m))), P+ the proxies with a row in the batch",
        when="Quick convergence; larger batches help it.",
        citation="Kim et al., Proxy Anchor Loss for Deep Metric Learning, CVPR 2020",
        build="pml:proxy_anchor",
        defaults={"margin": 0.1, "alpha": 32.0},
        search={"margin": SHARE, "alpha": SCALE_100},
        source=LIBRARY,
    ),
    _embedding(
        "smooth_ap",
        "Smooth-AP",
        what="1 - average precision, with a sigmoid for each comparison.",
        formula="1 - mean_q (1/|P|) sum_{i in P} (1 + sum_{j in P} G) / (1 + sum_j G), "
        "G = sigmoid((s_j - s_i)/t), j != i",
        when="Retrieval measured by average precision, with large batches.",
        citation="Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, "
        "ECCV 2020",
        build="ranking:SmoothAP",
        defaults={"temperature": 0.01, "query_in_list": False, "block": None},
        batch=(28, 4),
        search={"temperature": TEMPERATURE},
    ),
    _embedding(
        "recall_at_k",
        "Recall@k surrogate",
        what="1 - recall at several k, smooth in the ranks and in the cut.",
        formula="1 - mean_q mean_k min(k, sum_{i in P} sigmoid((k - rank_i)/t_cut)) / min(k, |P|), "
        "rank_i = 1 + sum_j sigmoid((s_j - s_i)/t), j != i",
        when="Retrieval measured by its first few hits, with very large batches.",
        citation="Patel, Tolias & Matas, Recall@k Surrogate Loss with Large Batches and Similarity "
        "Mixup, CVPR 2022",
        build="ranking:RecallAtK",
        defaults={
            "k": (1, 2, 4, 8, 16),
            "temperature": 0.01,
            "cut_temperature": 1.0,
            "block": None,
        },
        batch=(1000, 4),
        search={"temperature": TEMPERATURE, "cut_temperature": SearchRange(0.1, 10.0, log=True)},
    ),
    _embedding(
        "sup_ap",
        "SupAP",
        what="An upper bound of 1 - average precision that keeps pushing badly ranked negatives.",
        formula="1 - mean_q (1/|P|) sum_{i in P} r / (r + sum_{j not in P} u(s_j - s_i)), r the "
        "rank among P; u(x) = sigmoid(x/t) (+ start for x > 0), rho (x - delta) + offset beyond "
        "delta",
        when="As smooth_ap, where its gradient vanishes.",
        citation=RAMZI_2021,
        build="ranking:SupAP",
        defaults={**SURROGATE, "block": None},
        batch=(32, 4),
        search=SURROGATE_SEARCH,
    ),
    _embedding(
        "roadmap",
        "ROADMAP",
        what="SupAP plus a calibration that makes similarities comparable between batches.",
        formula="sup_ap + w calibration",
        when="Average precision with small batches.",
        citation=RAMZI_2021,
        build="ranking:Roadmap",
        defaults={
            **SURROGATE,
            "positive_margin": 0.9,
            "negative_margin": 0.6,
            "calibration_weight": 1.0,
            "block": None,
        },
        batch=(32, 4),
        search={
            **SURROGATE_SEARCH,
            **CALIBRATION_SEARCH,
            "calibration_weight": SearchRange(0.1, 10.0, log=True),
        },
    ),
    _regulariser(
        "calibration",
        "ROADMAP's calibration",
        what="Positive pairs above one similarity, negative ones below another; mean over all.",
        formula="sum+ [m+ - s]+ / |S+| + sum- [s - m-]+ / |S-|",
        when="Added to a ranking loss that sees only one batch at a time.",
        citation=RAMZI_2021,
        build="pairs:Calibration",
        defaults={**CALIBRATION, "negative_margin": 0.6, "denominator": "all"},
        batch=(32, 4),
        search=CALIBRATION_SEARCH,
    ),
    _regulariser(
        "tcm",
        "threshold-consistent margin",
        what="As calibration, with the mean over the offending pairs alone.",
        formula="w+ mean_{s in S+, s <= m+} (m+ - s) + w- mean_{s in S-, s >= m-} (s - m-)",
        when="Added to any loss when one threshold must serve all classes.",
        citation=ZHANG_2024,
        build="pairs:Calibration",
        defaults=CALIBRATION,
        search=CALIBRATION_SEARCH,
    ),
    _regulariser(
        "tcm_plus",
        "TCM+",
        what="The positive half of tcm.",
        formula="mean_{s in S+, s <= m+} (m+ - s)",
        when="To see what the positive half alone does.",
        citation=f"{ZHANG_2024}, A.2.3",
        build="pairs:Calibration",
        defaults={**CALIBRATION, "negative_weight": 0.0},
        search={"positive_margin": CALIBRATION_SEARCH["positive_margin"]},
    ),
    _regulariser(
        "tcm_minus",
        "TCM-",
        what="The negative half of tcm.",
        formula="mean_{s in S-, s >= m-} (s - m-)",
        when="To see what the negative half alone does.",
        citation=f"{ZHANG_2024}, A.2.3",
        build="pairs:Calibration",
        defaults={**CALIBRATION, "positive_weight": 0.0},
        search={"negative_margin": CALIBRATION_SEARCH["negative_margin"]},
    ),
    _regulariser(
        "tcm_prime",
        "TCM'",
        what="tcm without the indicator: all pairs pull, also those on the right side.",
        formula='mean_{S+} (m+ - s) + mean_{S-} (s - m-); with denominator="hard" the sums are '
        "divided by the numbers of offending pairs, as Eq. 17 is printed",
        when="To see what the indicator does.",
        citation=f"{ZHANG_2024}, A.2.3",
        build="pairs:Calibration",
        defaults={**CALIBRATION, "denominator": "all", "indicator": False},
        search=CALIBRATION_SEARCH,
    ),
    _embedding(
        "happier",
        "HAPPIER",
        what="An upper bound of 1 - hierarchical average precision, with a clustering of fine "
        "labels.",
        formula="(1 - w) (1 - mean_q sum_k H(k)/rank(k) / sum_k rel(k)) + w cross-entropy(cos/"
        "0.05); rel = (l/L)^alpha / |level l|; with x = s_j - s_k, H(k) = rel(k) + sum_j "
        "min(rel(k), rel(j)) v, v = 10x for x <= 0 and min(25x + .5, 1) for x > 0 where j is of a "
        "higher level than k, else [x > 0]; rank(k) = 1 + sum_j (u(x) of sup_ap where j is of a "
        "lower level than k, else [x > 0])",
        when="Labels form a tree, and a near miss should cost less than a bad one.",
        citation=RAMZI_2022,
        build="hierarchy:Happier",
        defaults=HAPPIER,
        labels="path",
        batch=(64, 4),
        search={"alpha": SearchRange(0.5, 5.0), **HAPPIER_SEARCH},
        own_lr=LR,
        needs=PROXIES,
        needs_nothing_if={"cluster_weight": 0},
    ),
    _embedding(
        "happier_f",
        "HAPPIER_F",
        what="HAPPIER with more weight on the fine levels: alpha 5 (SOP; iNaturalist 3).",
        formula="happier with alpha = 5",
        when="The finest level counts most, the tree second.",
        citation=RAMZI_2022,
        build="hierarchy:Happier",
        defaults={**HAPPIER, "alpha": 5.0},
        labels="path",
        batch=(64, 4),
        search={"alpha": SearchRange(1.0, 10.0), **HAPPIER_SEARCH},
        own_lr=LR,
        needs=PROXIES,
        needs_nothing_if={"cluster_weight": 0},
    ),
    _embedding(
        "happier_sum_wap",
        "HAPPIER with the relevance of sum-wAP",
        what="HAPPIER whose metric is the mean of the levels' average precisions.",
        formula="happier with rel(k) = sum over the levels p that k reaches of 1/|items of level "
        ">= p|",
        when="A tree with very uneven levels, where (l/L)^alpha / |level l| is not monotone.",
        citation=f"{RAMZI_2022}, supplementary A.2",
        build="hierarchy:Happier",
        defaults={**HAPPIER, "relevance": "sum_wap"},
        labels="path",
        batch=(64, 4),
        search=HAPPIER_SEARCH,
        own_lr=LR,
        needs=PROXIES,
        needs_nothing_if={"cluster_weight": 0},
    ),
    _embedding(
        "smooth_h_ap",
        "H-AP by sigmoids",
        what="1 - hierarchical average precision, with a sigmoid for each comparison.",
        formula="1 - mean_q sum_k (rel(k) + sum_j min(rel(k), rel(j)) G) / (1 + sum_j G) / "
        "sum_k rel(k), G = sigmoid((s_j - s_k)/t), j != k; rel = (l/L)^alpha / |level l|",
        when="To see what HAPPIER's bounds and its clustering add: the baseline of its ablation.",
        citation=f"{RAMZI_2022}, Table 5, with the sigmoids of Brown et al., Smooth-AP, ECCV 2020",
        build="hierarchy:SmoothHAP",
        defaults={"alpha": 1.0, "relevance": "level", "temperature": 0.01, "block": None},
        labels="path",
        batch=(64, 4),
        search={"alpha": SearchRange(0.5, 5.0), "temperature": TEMPERATURE},
    ),
    _classification(
        "csl",
        "cross-scale learning",
        what="Fine proxies, with a margin for each level against all that do not share it.",
        formula="sum_l mean softplus(LSE_{p not sharing level l} 32 s_p - 32 s_own + 32 m_l), m "
        "fine to coarse .25 .45 (two levels), .25 .35 .45, .15 to .75 (seven)",
        when="Labels form a tree, and one embedding must serve every level.",
        citation="Sun et al., Dynamic Metric Learning: Towards a Scalable Metric Space to "
        "Accommodate Multiple Semantic Scales, CVPR 2021",
        build="hierarchy:CSL",
        defaults={"scale": 32.0, "margins": None, "shift": 0.0, "spread": 1.0},
        labels="path",
        search={
            "scale": SCALE_200,
            "shift": SearchRange(-0.25, 0.5),
            "spread": SearchRange(0.0, 3.0),
        },
        needs=("hierarchy", "embedding_size"),
    ),
)

LOSSES = {one.name: one for one in _ENTRIES}

ALIASES = {
    "ms": "multi_similarity",
    "ms+miner": "multi_similarity_mined",
    "nsoftmax": "normalized_softmax",
    "norm_softmax": "normalized_softmax",
    "h_ap_sigmoid": "smooth_h_ap",
    "npairs": "n_pairs",
    "ntxent": "nt_xent",
    "proxyanchor": "proxy_anchor",
    "proxynca": "proxy_nca",
    "proxynca++": "proxy_nca_plus_plus",
    "proxy_nca++": "proxy_nca_plus_plus",
    "recall@k": "recall_at_k",
    "rs@k": "recall_at_k",
    "smoothap": "smooth_ap",
    "snr": "snr_contrastive",
    "softtriple": "soft_triple",
    "supap": "sup_ap",
    "tcm'": "tcm_prime",
    "tcm+": "tcm_plus",
    "tcm_": "tcm_minus",
}

MINERS = {
    one.name: one
    for one in (
        MinerEntry(
            "multi_similarity",
            "pairs harder than the hardest of the other kind, within epsilon",
            "Wang et al., Multi-Similarity Loss, CVPR 2019",
            "composition:hard_pairs",
            {"epsilon": 0.1},
            {"epsilon": SHARE},
        ),
        MinerEntry(
            "semihard",
            "triplets whose negative is farther than the positive, by less than a margin",
            "Schroff, Kalenichenko & Philbin, FaceNet, CVPR 2015",
            "composition:semihard",
            {"margin": 0.2},
            {"margin": SearchRange(0.01, 2.0)},
        ),
        MinerEntry(
            "batch_hard",
            "each anchor's farthest positive and nearest negative",
            "Hermans, Beyer & Leibe, In Defense of the Triplet Loss, 2017",
            "composition:batch_hard",
        ),
        MinerEntry(
            "distance_weighted",
            "for each positive pair a negative, drawn so that all distances are equally likely",
            "Wu et al., Sampling Matters in Deep Embedding Learning, ICCV 2017",
            "composition:DistanceWeighted",
            {"cutoff": 0.5, "farthest": 1.4},
            {"cutoff": SearchRange(0.1, 1.0), "farthest": SearchRange(1.0, 2.0)},
        ),
    )
}
