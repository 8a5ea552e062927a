"""Numbers and names that pages state, against what the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from studies.gom import CITATION
from studies.happier import CITATION as HAPPIER
from studies.reality_check import CITATION as REALITY_CHECK
from studies.reality_check import PAPER_GAINS
from studies.tcm import CITATION as TCM
from studies.ties import CITATION as TIES

import truerank
from tests.builders import clusters
from truerank import losses

ROOT = Path(__file__).parents[2]
PAPERS = {  # surnames from the title pages, first author first, and words of the title
    TIES: ("Nicolaou Dey Christlein Maier Karatzas", "Non-deterministic Behavior of Ranking"),
    CITATION: ("Wang Yuan Yamasaki Lin Xu Zeng", "Re-identification = Retrieval + Verification"),
    HAPPIER: ("Ramzi Audebert Thome Rambour Bitot", "Hierarchical Average Precision Training"),
    TCM: ("Zhang Xu Tang Fang Wu Tighe Xing", "Threshold-Consistent Margin Loss"),
    REALITY_CHECK: ("Musgrave Belongie Lim", "A Metric Learning Reality Check"),
}


def text(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("citation", PAPERS)
def test_a_study_cites_all_authors_of_its_paper(citation: str) -> None:
    authors, title = PAPERS[citation]
    assert citation.startswith(f"{', '.join(authors.split())}: {title}")


@pytest.mark.parametrize("citation", PAPERS)
def test_catalogues_and_pages_name_the_same_first_author(citation: str) -> None:
    """Wherever a title stands behind "X et al." or a list of authors, the first one is right."""
    authors, title = PAPERS[citation]
    first = authors.split()[0]
    code = [*(ROOT / "src").rglob("*.py"), *(ROOT / "studies").rglob("*.py")]
    files = [*code, *(ROOT / "docs").rglob("*.md")]
    found = 0
    for file in files:
        whole = re.sub(r'"\s*f?"', "", file.read_text(encoding="utf-8"))  # joined text literals
        names = r"[A-Z][\w-]+(?:(?:, | & | and )[A-Z][\w-]+)*"
        for match in re.finditer(rf"({names})(?: et al\.)?[,:] {re.escape(title)}", whole):
            assert match[1].startswith(first), (file.name, match[0])
            found += 1
    assert found >= 2


def test_the_number_of_losses_is_that_of_the_registry() -> None:
    found = re.search(r"(\d+) losses", text("README.md"))
    assert found
    assert int(found[1]) == len(losses.names())


def test_the_papers_gains_are_those_of_its_tables() -> None:
    tables = {  # MAP@R of contrastive and of the best loss: CUB, Cars, SOP (Tables 3 to 5)
        "concatenated": [(26.19, 26.53), (25.49, 27.84), (44.51, 47.18)],
        "separated": [(20.73, 21.42), (17.61, 18.93), (40.29, 41.79)],
    }
    for part, pairs in tables.items():
        gains = [100 * (best / contrastive - 1) for contrastive, best in pairs]
        assert PAPER_GAINS[part].startswith(f"{min(gains):.1f} to {max(gains):.1f};")


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/index.md",
        "docs/concepts/which-metric.md",
        "docs/concepts/open-set.md",
        "docs/guides/faces-and-speakers.md",
        "docs/guides/taxonomy.md",
        "docs/results/other-tools.md",
    ],
)
def test_pages_for_newcomers_lead_to_the_words(page: str) -> None:
    assert "glossary.md)" in text(page)


@pytest.mark.parametrize("word", ["mate", "stranger", "impostor", "junk", "distractor"])
def test_the_glossary_has_every_word_of_the_outputs(word: str) -> None:
    rows = [
        line
        for line in (ROOT / "docs/reference/glossary.md").read_text().splitlines()
        if "|" in line
    ]
    assert [line for line in rows if f"**{word}**" in line]


def test_no_page_has_the_old_words() -> None:
    """The glossary has them, and verification "(an impostor pair"; `mates` is an attribute."""
    old = re.compile(r"\b(?:mates?|strangers?|(?<!\(an )impostors?)\b", re.I)
    found = [
        f"{page.relative_to(ROOT)}: {words}"
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        if page.name != "glossary.md"
        for words in old.findall(_prose(page.read_text(encoding="utf-8")))
    ]
    assert not found


def _prose(page: str) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", page, flags=re.M | re.S)


def test_nmi_of_meaningless_clusters() -> None:
    page = text("docs/results/reproduce/reality-check.md")
    classes, each = 10_000, 4
    assert f"{100 * (1 - np.log(each) / np.log(classes)):.1f} % for 10,000 classes of 4" in page


def test_people_of_a_trial_list_are_deleted_in_as_many_groups_as_the_page_says() -> None:
    found = re.search(
        r"People are dealt into up to (\d+) jackknife groups",
        text("docs/guides/faces-and-speakers.md"),
    )
    assert found
    person = np.arange(2 * int(found[1]) + 2) // 2
    rng = np.random.default_rng(0)
    pairs = [(i, i + 1, bool(same)) for i in range(0, len(person) - 2, 2) for same in (True,)]
    pairs += [(i, i + 2, False) for i in range(0, len(person) - 2, 2)]
    rows = rng.normal(size=(len(person), 4)) + rng.normal(size=(len(person) // 2, 4))[person]
    facts = truerank.verify(rows, pairs, "auc", labels=person).provenance["intervals"]
    assert f"jackknife over {found[1]} shares of the people" in facts["method"]


def test_the_readme_is_short_and_its_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 110
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    monkeypatch.chdir(tmp_path)
    embeddings, labels = clusters(0, classes=20)
    baseline = clusters(0, classes=20, noise=2.0)[0]
    exec(compile(code, "README", "exec"), {**locals()})
    printed = capsys.readouterr().out
    assert printed.startswith("metric ")
    assert "ours & " in printed
    assert Path("report.html").exists()


def test_the_readme_shows_the_first_lines_of_a_result() -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    result = truerank.evaluate(**truerank.datasets.emoji().task("efficientnet"))
    assert str(result).startswith(shown)


def test_all_pages_together_are_short() -> None:
    """All but the results and those that scripts generate; notebooks with their output."""
    generated = {"commands.md", "metrics.md", "losses.md"}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "results" not in page.parts]
    texts = [page.read_text(encoding="utf-8") for page in pages if page.name not in generated]
    for notebook in (ROOT / "docs/notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        printed = [output for cell in cells for output in cell.get("outputs", [])]
        texts += ["".join(cell["source"]) for cell in cells]
        texts += ["".join(output["text"]) for output in printed]
    assert len(" ".join(texts).split()) <= 45_000
