"""Core values: metrics and their registry, scores, curves, tie groups, jackknife replicates.

Apart from _util, core imports no other room when it is loaded.
"""
