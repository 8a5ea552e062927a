"""The page on speed shows the recorded run, to the last digit."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


def script() -> Any:
    spec = importlib.util.spec_from_file_location(
        "document_performance", ROOT / "scripts/document_performance.py"
    )
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def test_table_and_picture_are_those_of_the_recorded_run() -> None:
    module = script()
    record = json.loads(module.RECORD.read_text(encoding="utf-8"))
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.page(text, record) == text
    assert module.gpu_table(text, json.loads(module.GPU_RECORD.read_text(encoding="utf-8"))) == text
    picture = module.PICTURE.read_text(encoding="utf-8")
    assert module.picture(record) == picture
    ElementTree.fromstring(picture)


def test_ratios_are_medians_of_the_ratios_in_each_round() -> None:
    case = {"rows": 20_000, "dimensions": 512, "mates": 5, "data": "trained"}

    def entry(name: str, processor: list[float]) -> dict[str, Any]:
        rounds = [
            {"seconds": 1.0, "processor": p, "megabytes": 10.0, "score": None} for p in processor
        ]
        return {"case": case, "contender": name, "rounds": rounds}

    measured = [entry("float32 GEMM", [2.0, 4.0, 8.0]), entry("truerank", [1.0, 3.0, 8.0])]
    *_, last = script().table.lines({"measured": measured})
    assert last == "|  | truerank | 1.00 | 3.00 | 0.75 | 1.00 | 10 |  |"
