"""A headless browser that remembers what a page complained about and what it asked the net for."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

__all__ = ["Browser"]


class Browser:
    """Chromium, driven by selenium."""

    def __init__(self, program: str, driver: str, folder: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = program
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--lang=en"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        self.driver.set_script_timeout(60)
        self.downloads = folder
        self.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def close(self) -> None:
        """End it."""
        self.driver.quit()

    def command(self, name: str, **arguments: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def open(
        self, page: Path, *, width: int = 1280, dark: bool = False, drawn: bool = False
    ) -> None:
        """Open a page from disk, in a window of this width, and draw all of it if asked to."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.as_uri())
        if drawn:
            self.driver.execute_async_script("drawAll().then(arguments[0]);")

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns in the page."""
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """The text of the first element of this kind."""
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements of this kind."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return list(self.run(script, selector))

    def find(self, selector: str) -> Any:
        """The first element of this kind."""
        return self.driver.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        """Click the first element of this kind."""
        self.run("document.querySelector(arguments[0]).click()", selector)

    def downloaded(self, name: str) -> str:
        """What a click has saved under this name."""
        path = self.downloads / name
        for _ in range(200):
            if path.exists():
                return path.read_text(encoding="utf-8")
            time.sleep(0.05)
        raise AssertionError(f"{name} was not saved; there are {list(self.downloads.iterdir())}")

    def complaints(self) -> list[str]:
        """What the page wrote to the console since it was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> set[str]:
        """The schemes of all that was asked for since the page was opened."""
        messages = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        sent = [one["message"] for one in messages]
        return {
            one["params"]["request"]["url"].partition(":")[0]
            for one in sent
            if one["method"] == "Network.requestWillBeSent"
        }
