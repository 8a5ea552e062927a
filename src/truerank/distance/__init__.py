"""Exact distances between rows; the file of each distance argues why it is exact."""
