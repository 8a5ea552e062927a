"""One precision for all machines: what a fold computes in does not depend on the device."""

from __future__ import annotations

import pytest

from truerank._util.errors import InputError
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.methods import methods_of, training_config


@pytest.mark.parametrize(
    ("named", "used"),
    [({}, "float32"), ({"precision": "auto"}, "float32"), ({"precision": "bfloat16"}, "bfloat16")],
)
def test_auto_is_float32_on_every_device(named: dict[str, str], used: str) -> None:
    given = {"data": {"name": "quickdraw"}, "methods": ["contrastive"]}
    config = BenchmarkConfig.of({**given, "shared": {"training": named}})
    assert config.to_dict()["shared"]["training"]["precision"] == used
    (method,) = methods_of(config)
    trained = training_config(config, method, dict(method.defaults), seed=0)
    assert trained["training"]["precision"] == used


def test_a_precision_that_is_none_is_refused() -> None:
    given = {"data": {"name": "quickdraw"}, "methods": ["contrastive"]}
    with pytest.raises(InputError, match="precision"):
        BenchmarkConfig.of({**given, "shared": {"training": {"precision": "half"}}})
