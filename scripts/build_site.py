"""Put the documentation site together: the pages of docs/, those of the root, and the reference.

The pages stay readable where they lie; here they are copied to build/site-pages, with links that
hold there, beside a page of the reference for each group of names. `make docs` then has zensical
make build/site of them; it needs nothing of truerank installed.

    python scripts/build_site.py
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS, TARGET, SOURCE = ROOT / "docs", ROOT / "build" / "site-pages", ROOT / "src" / "truerank"
FROM_THE_ROOT = {
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "CHANGELOG.md": "changes.md",
    ROOT / "examples" / "README.md": "examples.md",
}
"""Pages that lie elsewhere, and their names on the site."""

REFERENCE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "api-scoring.md": (
        "API: scoring",
        "Score embeddings, returned lists, an index, or trials.",
        (
            *("evaluate", "evaluate_lists", "index_loss", "IndexLoss", "verify"),
            *("Result", "Score", "Taxonomy", "InputError", "ExactnessError", "TruerankWarning"),
        ),
    ),
    "api-analysis.md": (
        "API: results, models and data",
        "Plot, report and compare results; choose thresholds; check data; run competitions.",
        (
            *("plot", "neighbors", "Neighbors", "compare", "Comparison", "choose_threshold"),
            *("threshold_card", "ThresholdCard", "audit", "Audit", "compression_sweep"),
            *("CompressionSweep", "exact_neighbors", "ExactNeighbors", "shard", "report"),
            *("Task", "PublicTask", "leaderboard", "Board"),
        ),
    ),
    "api-training.md": (
        "API: losses, training and benchmarks",
        "Train an embedding, compare losses, read the field's data sets.",
        ("losses", "training", "benchmark", "datasets"),
    ),
    "api-extending.md": (
        "API: metrics, other tools and the engine",
        "Use metrics as values, replace another tool's evaluator, build on the counts.",
        ("metrics", "compat", "conformance", "engine"),
    ),
}
"""Pages of the reference: a title, a sentence, and public names or whole modules."""
MORE = {
    "neighbors": (
        "truerank.result.ranked_rows.NeighborList",
        "truerank.result.ranked_rows.Items",
    ),
    "choose_threshold": (
        "truerank.analysis.operating_points.OperatingPoint",
        "truerank.analysis.operating_points.ClassRates",
    ),
    "audit": ("truerank.analysis.audit.Finding",),
    "compression_sweep": (
        "truerank.analysis.compression.Kept",
        "truerank.analysis.compression.Copy",
    ),
}
"""What public functions give back and the package's own list does not name."""
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def main() -> None:
    """Write all pages anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(DOCS, TARGET, ignore=shutil.ignore_patterns("*.md", "*.json"))
    for page in sorted(DOCS.rglob("*.md")):
        _write(page.relative_to(DOCS).as_posix(), _relinked(page, page.relative_to(DOCS)))
    for page, name in FROM_THE_ROOT.items():
        _write(name, _relinked(page, Path(name)))
    for name in REFERENCE:
        _write(f"reference/{name}", reference(name))


def generated() -> set[str]:
    """The pages of the site that are not in docs/."""
    return {*FROM_THE_ROOT.values(), *(f"reference/{name}" for name in REFERENCE)}


def reference(page: str) -> str:
    """A page that has the docstrings of some names put in."""
    title, sentence, names = REFERENCE[page]
    blocks = [f"# {title}", sentence]
    for name in names:
        if name[0].islower() and (SOURCE / name / "__init__.py").is_file():
            offered = listed(SOURCE / name / "__init__.py")
            blocks += [f"::: truerank.{name}.{one}" for one in offered if not one.isupper()]
        else:
            blocks.append(f"::: truerank.{name}")
            blocks += [f"::: {other}" for other in MORE.get(name, ())]
    return "\n\n".join(blocks) + "\n"


def listed(module: Path) -> list[str]:
    """What a module offers, read from its `__all__` without importing it."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise ValueError(f"{module} has no __all__")


def _relinked(page: Path, place: Path) -> str:
    """A page whose links to other pages hold on the site; those to files become words."""
    text = page.read_text(encoding="utf-8")

    def moved(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"[a-z]+:", target):
            return found[0]
        there = Path(os.path.normpath(page.parent / target))
        if there in FROM_THE_ROOT:
            goal = Path(FROM_THE_ROOT[there])
        elif there.is_relative_to(DOCS) and there.suffix != ".json" and not there.is_dir():
            goal = there.relative_to(DOCS)
        else:
            return "]()"
        path = os.path.relpath(goal, place.parent)
        return f"{found[1]}{path}{found[3] or ''}{found[4]}"

    text = LINK.sub(moved, text)
    text = text.replace("```python\n>>> ", "```pycon\n>>> ")  # what is printed is no code
    return re.sub(r"\[([^\]]*)\]\(\)", r"\1", text)


def _write(name: str, text: str) -> None:
    path = TARGET / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
    print(TARGET)
