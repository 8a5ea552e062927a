"""cached_property without a lock, so that a process may be forked while threads evaluate.

functools.cached_property of Python before 3.12 holds one lock for all instances of a class
while a value is computed. A child forked in that moment inherits the lock, held by a thread
that it does not have, and waits forever; threads that evaluate side by side wait for each
other.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """Compute a value at its first use and keep it with the instance.

        Two threads may both compute it; all of them get the value that was kept first.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Return the kept value, or compute it; an instance's own dictionary is asked first."""
            if instance is None:
                return self
            kept = instance.__dict__
            try:
                return kept[self.attrname]
            except KeyError:
                return kept.setdefault(self.attrname, self.func(instance))
