"""Readers, one file for each layout on disk: a folder comes in, a Dataset goes out."""

__all__: list[str] = []
