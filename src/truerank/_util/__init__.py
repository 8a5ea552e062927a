"""Helpers without knowledge of metrics: errors, settings, threads, files, text, progress.

Nothing here imports another room of truerank.
"""
