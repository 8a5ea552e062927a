"""Confidence intervals and bands of scores and curves, jackknife replicates, and chance."""
