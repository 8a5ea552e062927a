"""The modules of the package that can be imported here: kernels for a GPU need Triton."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import truerank

__all__ = ["module_names"]


def module_names() -> Iterator[str]:
    yield "truerank"
    for found in pkgutil.walk_packages(truerank.__path__, "truerank."):
        if found.name == "truerank.__main__":  # it runs the command line
            continue
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if error.name != "triton":
                raise
        else:
            yield found.name
