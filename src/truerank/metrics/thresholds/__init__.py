"""Threshold metrics in four families: verification, open set, GOM and OPIS (consistency).

A family says what it collects in a pass, its scores, its curves and their jackknife replicates.
Verification accepts or rejects pairs (ROC, AUC, EER, DCF, TAR). Open-set identification
searches for mated and unmated queries (DIR, FAR, TTR). GOM joins retrieval and verification on
one axis of thresholds. OPIS is the consistency of one threshold over classes.
"""
