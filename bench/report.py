"""python -m bench.report: how long a page takes to make and to open, and how large it is.

Leave-one-out on 60,000 rows in about 12,000 classes by default, seen by six cameras. Opened by
Chromium from disk, a fresh tab each time: until its content is first painted, and until all
scripts have run, so that every table is there.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import truerank
from bench.data import uneven

OPENED = """
const [moved] = performance.getEntriesByType("navigation");
const paint = performance.getEntriesByName("first-contentful-paint")[0];
return [paint ? paint.startTime : null, moved.loadEventEnd];
"""
LIMITS = {"megabytes": 4.0, "seconds to open": 2.0}
ASKED = ["precision@1", "hit@10", "r_precision", "map@r", "map", "mrr", "minp"]


def main() -> None:
    """Make a page, open it some times, and print."""
    parser = argparse.ArgumentParser(prog="bench.report", description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5, help="times that the page is opened")
    options = parser.parse_args()
    x, y = uneven(options.rows, options.dimensions, max(2, options.rows // 5))
    names = [f"product {label}" for label in y]
    cameras = [f"camera {number}" for number in np.arange(options.rows) % 6]
    began = time.process_time()
    result = truerank.evaluate(x, names, query_groups=cameras, metrics=ASKED)
    evaluated = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        began = time.process_time()
        result.to_html(page)
        made = time.process_time() - began
        rows = {
            "CPU seconds to evaluate": evaluated,
            "CPU seconds to make": made,
            "megabytes": page.stat().st_size / 1e6,
            **opened(page, options.repeat),
        }
    print("| | | allowed |\n|---|---:|---:|")
    for name, value in rows.items():
        print(f"| {name} | {value:.2f} | {LIMITS.get(name, '')} |")


def opened(page: Path, times: int) -> dict[str, float]:
    """Medians over several times; nothing where there is no browser."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        print("Chromium and its driver are not installed: the page is not opened.")
        return {}
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    settings = webdriver.ChromeOptions()
    settings.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        settings.add_argument(argument)
    paints, loads = [], []
    browser = webdriver.Chrome(options=settings, service=Service(driver))
    try:
        for _ in range(times):
            browser.switch_to.new_window("tab")
            browser.get(page.as_uri())
            time.sleep(1)
            paint, load = browser.execute_script(OPENED)
            paints.append((load if paint is None else paint) / 1000)
            loads.append(load / 1000)
    finally:
        browser.quit()
    return {
        "seconds to first paint": statistics.median(paints),
        "seconds to open": statistics.median(loads),
    }


if __name__ == "__main__":
    main()
