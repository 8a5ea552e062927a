"""The documentation site without its tool: links and anchors hold, nav and reference are whole."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import unicodedata
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import truerank
from truerank.cli.commands import commands

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COMMANDS = DOCS / "reference/commands.md"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / folder / "README.md" for folder in ("examples", "tests")),
]
LINK = re.compile(r"\]\(\s*([^)\s]+)\s*\)")


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def prose(page: Path) -> str:
    """A page without its blocks of code and what stands between backticks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    text = re.sub(r"^    .*$", "", text, flags=re.M)
    return re.sub(r"`[^`\n]*`", "", text)


@cache
def anchors(page: Path) -> set[str]:
    """Headings by which a code host and the site both know them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    found = set()
    for title in re.findall(r"^#{1,6} (.+)$", text, flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").strip()
        host = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        ascii_only = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
        site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())
        found |= {host} & {site}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_hold(page: Path) -> None:
    dead = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


def test_dead_links_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One, two\n\n[a](no.md) [b](#one-two) [c](#two) `[d](e)`\n\n    [f](g)\n")
    assert LINK.findall(prose(page)) == ["no.md", "#one-two", "#two"]
    assert anchors(page) == {"one-two"}


def pages_in(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in pages_in(part)]


@cache
def settings() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return loaded


def test_the_navigation_is_short_and_leads_to_every_page() -> None:
    """Each page is in it once, or is linked from one that is."""
    listed = pages_in(settings()["nav"])
    assert len(listed) == len(set(listed)) <= 45
    here = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert set(listed) <= here | script("build_site").generated()
    linked = {
        (page.parent / link.partition("#")[0]).resolve().relative_to(DOCS).as_posix()
        for page in (DOCS / name for name in listed if (DOCS / name).exists())
        for link in LINK.findall(prose(page))
        if not re.match(r"[a-z]+:|#", link) and (page.parent / link).resolve().is_relative_to(DOCS)
    }
    assert here - set(listed) <= linked


def test_what_is_copied_of_a_session_is_its_code() -> None:
    """The site's copy button takes innerText while data-md-copying is set on the code."""
    (style,) = settings()["extra_css"]
    rules = (DOCS / style).read_text(encoding="utf-8")
    hidden = re.findall(r"([^{}]*)\{\s*display: none;\s*\}", rules)
    for kind in ("gp", "go"):  # prompts and output, as Pygments names them
        assert any(f"[data-md-copying] .{kind}" in one for one in hidden)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_of_code_name_their_language(page: Path) -> None:
    """And sessions are blocks of Python that begin with a prompt, by which the site knows them."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, flags=re.S | re.M)
    assert len(blocks) == len(re.findall(r"^ *```", text, flags=re.M)) / 2
    for language, block in blocks:
        assert re.fullmatch("python|sh|text|yaml", language)
        assert (language == "python" and block.startswith(">>> ")) == (">>> " in block), block
    assert ">>> " not in re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


def test_the_reference_states_each_parameters_own_type_and_default() -> None:
    """griffe gives all names of one entry what the first one has."""
    function = truerank.index_loss
    empty = inspect.Parameter.empty
    signature = {
        name: (one.annotation, None if one.default is empty else repr(one.default))
        for name, one in inspect.signature(function).parameters.items()
    }
    first = signature["metrics"]
    documented = [
        SimpleNamespace(name=name, annotation=first[0], value=first[1])
        for name in ("metrics", "average", "confidence", "seed", "device")
    ]
    stated = SimpleNamespace(name="stored_distance", annotation="a distance", value="'cosine'")
    unknown = SimpleNamespace(name="*more", annotation="words", value="1")
    script("documented_parameters").correct([*documented, stated, unknown], signature)
    found = {one.name: (one.annotation, one.value) for one in documented}
    assert {name: value for name, (_, value) in found.items()} == {
        "metrics": "None", "average": "'query'", "confidence": "0.95", "seed": "0",
        "device": "'auto'",
    }  # fmt: skip
    assert {name: kind for name, (kind, _) in found.items()} == {
        name: signature[name][0] for name in found
    }
    assert (stated.annotation, stated.value) == ("a distance", "None")
    assert (unknown.annotation, unknown.value) == ("words", "1")
    options = settings()["plugins"][1]["mkdocstrings"]["handlers"]["python"]["options"]
    assert options["extensions"] == ["scripts/documented_parameters.py"]


def test_nothing_is_fetched_from_elsewhere() -> None:
    assert settings()["theme"]["font"] is False
    assert "extra_javascript" not in settings()
    assert "offline" not in settings()["plugins"], "it loads a script from a CDN"


def test_the_reference_has_every_public_name() -> None:
    site = script("build_site")
    named = [name for _, _, names in site.REFERENCE.values() for name in names]
    assert sorted(named) == sorted(set(truerank.__all__) - {"__version__", "integrations"})
    text = "".join(map(site.reference, site.REFERENCE))
    wanted = re.findall(r"^::: (\S+)$", text, flags=re.M)
    assert len(set(wanted)) == len(wanted) > 60
    for path in wanted:
        assert re.search(rf"\(#{re.escape(path)}\) \| \S.* \|$", text, flags=re.M), path
        module, _, name = path.rpartition(".")
        if module.removeprefix("truerank.") not in truerank.__all__:  # those have tests of theirs
            assert getattr(importlib.import_module(module), name).__doc__, path


def test_pages_are_put_together_with_links_that_hold_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = script("build_site")
    monkeypatch.setattr(site, "TARGET", tmp_path)
    site.main()
    found = {page.relative_to(tmp_path).as_posix() for page in tmp_path.rglob("*.md")}
    assert found >= set(pages_in(settings()["nav"]))
    for page in tmp_path.rglob("*.md"):
        for link in LINK.findall(prose(page)):
            if not re.match(r"[a-z]+:|#", link):
                assert (page.parent / link.partition("#")[0]).exists(), (page.name, link)
    assert "](../contributing.md)" in (tmp_path / "reference/architecture.md").read_text(
        encoding="utf-8"
    )
    assert "](guides/competition.md)" in (tmp_path / "changes.md").read_text(encoding="utf-8")
    examples = (tmp_path / "examples.md").read_text(encoding="utf-8")
    assert "papers_table.py" in examples
    assert "](papers_table.py)" not in examples


def test_the_page_of_commands_is_up_to_date() -> None:
    """Write it anew with `python scripts/document_commands.py`."""
    assert COMMANDS.read_text(encoding="utf-8") == script("document_commands").page()


def test_the_page_of_commands_has_every_option() -> None:
    sections = re.split(r"^## truerank ", COMMANDS.read_text(encoding="utf-8"), flags=re.M)[1:]
    assert [section.split()[0] for section in sections] == list(commands.commands)
    for text, (name, command) in zip(sections, commands.commands.items(), strict=True):
        for one in [command, *getattr(command, "commands", {}).values()]:
            for parameter in one.params:
                if parameter.param_type_name == "option":
                    assert f"`{parameter.opts[-1]}" in text, (name, parameter.opts)


def test_the_toy_spaces_are_drawn_and_told_as_they_score() -> None:
    toys = script("draw_toy_spaces")
    stored = toys.TARGET.read_text(encoding="utf-8")
    assert stored == toys.picture()
    ElementTree.fromstring(stored)
    scores = {name[0]: toys.scores(name) for name in toys.SPACES}
    told = " ".join((DOCS / "concepts/which-metric.md").read_text(encoding="utf-8").split())
    for space in ("a", "b", "d"):
        said = re.search(rf" {space}, (?:touching|a little|one wide).*?(?= [bcd], |\]\()", told)
        assert said is not None
        for value in scores[space].values():
            if value < 0.995:
                assert f"{100 * value:.1f}" in said[0]
    assert set(scores["c"].values()) == {1.0}
    assert scores["a"]["hit@1"] > 0.97
    assert scores["a"]["map@r"] < scores["b"]["map@r"] - 0.1 < scores["c"]["map@r"] - 0.1


def test_the_picture_of_the_inside_is_up_to_date() -> None:
    drawing = script("draw_inside")
    assert drawing.TARGET.read_text(encoding="utf-8") == drawing.picture()
    ElementTree.fromstring(drawing.picture())


@pytest.mark.parametrize("name", ["results/speed", "results/other-tools"])
def test_long_pages_open_with_the_answer_and_fold_the_rest(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert re.match(r"# .+\n\n\*\*The answer", text)
    opened = text.count('<details markdown="1">\n<summary>')
    assert opened == text.count("<details") == text.count("</details>") > 1
    shown = re.sub(r"<details.*?</details>", "", text, flags=re.S)
    assert len(shown) < 0.7 * len(text)
