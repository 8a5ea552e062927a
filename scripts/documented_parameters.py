"""Give every parameter of the reference the type and the default that the signature has.

An entry of a docstring may list several names ("average, confidence : as in evaluate_lists").
griffe, which reads docstrings for the site, then takes what the signature has for the first name
and gives it to all of them. mkdocs.yml names this file as an extension of griffe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

try:
    import griffe
except ModuleNotFoundError:  # where the site is not built, `correct` alone is of use
    griffe = None  # type: ignore[assignment]


def correct(documented: Iterable[Any], signature: Mapping[str, tuple[Any, Any]]) -> None:
    """Put types and defaults of a signature, name: (type, default), on documented parameters.

    A type that the docstring states in words stays; one that is that of any parameter came from
    the signature, and becomes the parameter's own. A parameter without a default has None here.
    """
    types = {str(kind) for kind, _ in signature.values() if kind is not None}
    for one in documented:
        name = one.name.lstrip("*")
        if name not in signature:
            continue
        kind, default = signature[name]
        one.value = default
        if one.annotation is None or str(one.annotation) in types:
            one.annotation = kind


if griffe is not None:

    class DocumentedParameters(griffe.Extension):
        """Correct what griffe has read, of each function and of each class by its `__init__`."""

        def on_package(self, *, pkg: Any, **_: Any) -> None:
            """Go through a package once it is loaded."""
            _visit(pkg)


def _visit(thing: Any) -> None:
    for member in list(thing.members.values()):
        if member.is_alias:
            continue
        if (member.is_function or member.is_class) and member.docstring is not None:
            found = getattr(member, "parameters", ())
            signature = {one.name.lstrip("*"): (one.annotation, one.default) for one in found}
            for section in member.docstring.parsed:
                if section.kind.value == "parameters":
                    correct(section.value, signature)
        if not member.is_function and not member.is_attribute:
            _visit(member)
