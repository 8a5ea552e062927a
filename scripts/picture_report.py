"""Take docs/img/report.png: the top of the page that truerank demo writes, in Chromium.

python scripts/picture_report.py
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from truerank import Result
from truerank.cli import demonstration

TARGET = Path(__file__).parents[1] / "docs" / "img" / "report.png"
WIDTH, HEIGHT, SCALE = 1280, 1340, 0.75


def shown(path: Path) -> bytes:
    """The top of the page: its conclusion, the forest plot, and queries with their neighbors."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        size = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(path.as_uri())
        driver.set_script_timeout(60)
        driver.execute_async_script("drawAll().then(arguments[0]);")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": SCALE}
        options_ = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        taken = driver.execute_cdp_cmd("Page.captureScreenshot", options_)
        return base64.b64decode(taken["data"])
    finally:
        driver.quit()


def drawn(results: Mapping[str, Result]) -> PngInfo:
    """The scores that the picture shows, and the digest of this script, for a test to compare."""
    scores = {
        metric: [f"{100 * result[metric].value:.2f}" for result in results.values()]
        for metric in list(next(iter(results.values())))[:10]
    }
    kept = PngInfo()
    kept.add_text("scores", json.dumps(scores))
    kept.add_text("script", hashlib.sha256(Path(__file__).read_bytes()).hexdigest())
    return kept


def main() -> None:
    """Write the page, take the picture, and keep it small."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        demo = demonstration.run()
        demo.write_report(path)
        picture = Image.open(io.BytesIO(shown(path)))
    few = picture.convert("RGB").quantize(224)
    few.save(TARGET, optimize=True, pnginfo=drawn(demo.results))
    print(TARGET)


if __name__ == "__main__":
    main()
