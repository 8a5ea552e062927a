"""Analyses of results and embeddings: compare, thresholds, neighbours, audit, compression."""
