"""Take docs/img/report.png: the top of a page about the first model of the demo, in Chromium.

python scripts/picture_report.py
"""

from __future__ import annotations

import base64
import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image

import truerank

TARGET = Path(__file__).parents[1] / "docs" / "img" / "report.png"
WIDTH, HEIGHT, SCALE = 1280, 1560, 0.75


def page(folder: Path) -> Path:
    """The page of one model of the emoji data, with the demo's labels of three levels."""
    data = truerank.datasets.emoji()
    task = data.task("efficientnet", hierarchy=True)
    metrics = ["precision@1", "hit@10", "map@r", "h_ap", "eer", "tar@far=0.01"]
    path = folder / "page.html"
    truerank.evaluate(**task, metrics=metrics).to_html(path)
    return path


def shown(path: Path) -> bytes:
    """The parts of the page that say most, one below the other: scores and curves."""
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


def main() -> None:
    """Make the page, take the picture, and keep it small."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Image.open(io.BytesIO(shown(page(Path(folder)))))
    few = picture.convert("RGB").quantize(160)
    few.save(TARGET, optimize=True)
    print(TARGET)


if __name__ == "__main__":
    main()
