"""Analyses of results and embeddings: compare, thresholds, neighbors, audit, compression."""
