"""Files: what users have on disk becomes arrays; what truerank writes is never half a file."""

from truerank.files.reading import (
    Bundle,
    read,
    read_archive,
    read_embeddings,
    read_json,
    read_npy,
    require_embeddings,
)
from truerank.files.sides import is_path, read_labels, read_side
from truerank.files.text import check_readable, read_text
from truerank.files.writing import atomic_path, check_writable, to_json, write_text

__all__ = [
    "Bundle",
    "atomic_path",
    "check_readable",
    "check_writable",
    "is_path",
    "read",
    "read_archive",
    "read_embeddings",
    "read_json",
    "read_labels",
    "read_npy",
    "read_side",
    "read_text",
    "require_embeddings",
    "to_json",
    "write_text",
]
