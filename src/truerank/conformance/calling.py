"""A user's function, called with a case: found by its name, given its arguments, its answer read.

Which of the two arguments comes first is read from the names of the function's parameters, where
these are known (`y_true`, `preds`, `run`, ...). An error of the function is an answer too.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from truerank.conformance.cases import CALLS, Case
from truerank.conformance.model import RAISED
from truerank.errors import InputError, shortened
from truerank.extras import install
from truerank.wording import either

__all__ = ["ARRAYS", "Caller", "Observation", "load"]

ARRAYS = ("numpy", "torch", "lists")
"""What a function may be given."""
_TRUTH = {
    *("actual", "gold", "golds", "ground_truth", "ground_truths", "gt", "judgements", "judgments"),
    *("labels", "qrel", "qrels", "references", "rel", "relevance", "relevances", "relevant"),
    *("relevant_docs", "relevant_ids", "target", "targets", "true", "truth", "y", "y_true"),
}
_FOUND = {
    *("embeddings", "features", "lists", "neighbors", "neighbours", "pred", "predicted"),
    *("predictions", "preds", "ranked", "ranking", "recommended", "results", "retrieved"),
    *("retrieved_docs", "retrieved_ids", "returned", "run", "runs", "scores", "similarities"),
    *("x", "y_pred", "y_score"),
}
_FIRST = {"embeddings": "found", "scores": "found", "lists": "found", "qrels": "truth"}
"""Which argument comes first where the names do not tell."""


@dataclass(frozen=True)
class Observation:
    """What the function gave for a case."""

    value: float | str
    """RAISED if it gave no number."""
    error: str | None = None


class Caller:
    """A function and how it is called."""

    def __init__(
        self,
        function: Callable[..., Any],
        call: str,
        arrays: str = "numpy",
        one_query: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(function):
            raise InputError(f"conformance takes a function. Got {shortened(function)}.")
        for name, given, known in (("call", call, CALLS), ("arrays", arrays, ARRAYS)):
            if not isinstance(given, str) or given not in known:
                raise InputError(
                    f"The '{name}' parameter must be {either(known)}. Got {shortened(given)}."
                )
        if not isinstance(one_query, bool):
            raise InputError(
                f"The 'one_query' parameter must be True or False. Got {shortened(one_query)}."
            )
        if one_query and call == "embeddings":
            raise InputError("embeddings are searched among each other; leave one_query out.")
        if arrays == "torch" and importlib.util.find_spec("torch") is None:
            raise InputError(f"arrays='torch' needs torch: {install('torch')}.")
        more = {} if arguments is None else arguments
        if not isinstance(more, Mapping) or not all(isinstance(name, str) for name in more):
            raise InputError(
                f"The 'arguments' parameter must map names to values. Got {shortened(arguments)}."
            )
        self.function, self.call, self.arrays = function, call, arrays
        self.one_query, self.arguments = one_query, dict(more)
        self.swapped = _is_swapped(function, call)

    def __call__(self, case: Case) -> Observation:
        """Call it, with arguments of its own; what it prints goes to stderr."""
        first, second = self._arguments(case)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
                warnings.simplefilter("ignore")
                found = self.function(first, second, **self.arguments)
                return Observation(_number(found))
        except Exception as error:  # whatever a user's function raises is its answer
            text = " ".join(str(error).split())[:200]
            return Observation(
                RAISED, f"{type(error).__name__}: {text}" if text else type(error).__name__
            )

    def _arguments(self, case: Case) -> tuple[Any, Any]:
        first, second = case.arguments()
        if case.call in ("scores", "lists") and self.one_query:
            first, second = first[0], second[0]
        if case.call == "embeddings":
            whole = all(label == int(label) for label in second)
            second = [int(label) for label in second] if whole else second
            first, second = self._array(first, np.float32), self._array(second, None)
        elif case.call == "scores":
            first, second = self._array(first, np.float64), self._array(second, np.int64)
        return (second, first) if self.swapped else (first, second)

    def _array(self, values: Any, dtype: Any) -> Any:
        if self.arrays == "lists":
            return values
        array = np.array(values, dtype=dtype)
        if self.arrays == "numpy":
            return array
        import torch

        return torch.from_numpy(array)


def _number(found: Any) -> float:
    """The answer as a number; None is no number, as nan is."""
    if found is None:
        return math.nan
    if isinstance(found, (str, bytes, Mapping)) or np.size(_plain(found)) != 1:
        raise TypeError(f"it returned {shortened(found)}, not a number")
    return float(_plain(found).reshape(()))


def _plain(found: Any) -> Any:
    return np.asarray(found.detach().cpu() if hasattr(found, "detach") else found)


def _is_swapped(function: Callable[..., Any], call: str) -> bool:
    """Whether the names of the first two parameters say that they stand the other way round."""
    try:
        names = list(inspect.signature(function).parameters)[:2]
    except (TypeError, ValueError):  # built in: it does not say what it takes
        return False
    kinds = ["truth" if n in _TRUTH else "found" if n in _FOUND else "" for n in names]
    return sorted(kinds) == ["found", "truth"] and kinds[0] != _FIRST[call]


def load(text: str) -> Callable[..., Any]:
    """The function that 'package.module:function' or 'file.py:function' names."""
    module_name, _, name = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not module_name or not name:
        raise InputError(
            "name a function as package.module:function or file.py:function. "
            f"Got {shortened(text)}."
        )
    found: Any = _module(module_name)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except Exception as error:  # a module may have a __getattr__ of its own
            raise InputError(f"{module_name} has no {name!r}.") from error
    if not callable(found):
        raise InputError(f"{text} is no function but {shortened(found)}.")
    return found  # type: ignore[no-any-return]


def _module(name: str) -> Any:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            if not name.endswith(".py"):
                return importlib.import_module(name)
            path = Path(name)
            if not path.is_file():
                raise InputError(f"there is no file {name}.")
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None:
                raise InputError(f"{name} is no Python file.")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(f"{name} cannot be imported: {type(error).__name__}: {text}.") from error
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)
