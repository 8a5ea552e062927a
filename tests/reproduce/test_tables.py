"""The table of what was trained: what the search found stands beside the test scores."""

from __future__ import annotations

from studies.trained import score_sheet

from tests.reproduce.pretend import pretend
from truerank.benchmark.search import BEHIND


def test_what_the_search_found() -> None:
    beside = {"loss": "triplet", "objective": {"minimise": "opis", "of": "alone", "less": 0.005}}
    methods = [
        {"name": "alone", "loss": "triplet"},
        {"name": "kept up", **beside},
        {"name": "behind", **beside},
    ]
    scores = {str(one["name"]): {"map@r": [0.5, 0.52], "opis": [0.02, 0.03]} for one in methods}
    one = pretend(
        "made",
        scores,
        config={"methods": methods},
        validation={"alone": 0.5125, "kept up": -0.0321, "behind": BEHIND - 0.0253},
    )
    sheet = score_sheet(one, ["map@r", "opis"], scales={"opis": 1000.0})
    assert [row[-1] for row in sheet.rows] == ["51.25", "opis 32.10 x 1000", "no trial kept up"]
    assert sheet.rows[0][1].startswith("51.00 ± ")
