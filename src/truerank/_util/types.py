"""Type aliases of numpy arrays that many modules annotate with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
