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
        """Functions that score embeddings, returned lists, an index or trials, and what they
return. For an overview of arguments and results read [inputs](inputs.md) and [results
and export](outputs.md); for a choice of metrics, [which metric answers my
question?](../concepts/which-metric.md)

```python
import truerank

labels = ["a", "a", "b", "b"]
rows = [[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [2.0, 0.0]]
result = truerank.evaluate(rows, labels, metrics=["map@r", "hit@1"])
print(result["map@r"].value)
#> 1.0
```""",
        (
            *("evaluate", "evaluate_lists", "index_loss", "IndexLoss", "verify"),
            *("Result", "Score", "Taxonomy", "InputError", "ExactnessError", "TruerankWarning"),
        ),
    ),
    "api-analysis.md": (
        "API: results, models and data",
        """Functions that compare results, choose thresholds, check data, plot, report and run
competitions. The guides show them at work: [looking at
results](../guides/looking-at-results.md), [checking data for
errors](../guides/audit.md), [faces and speakers](../guides/faces-and-speakers.md),
[running a competition](../guides/competition.md).

```python
import numpy as np
import truerank

rng = np.random.default_rng(0)
labels = np.repeat(np.arange(40), 4)
rows, noise = rng.normal(size=(40, 8))[labels], rng.normal(size=(160, 8))
one = truerank.evaluate(rows + 0.5 * noise, labels, metrics="map@r")
two = truerank.evaluate(rows + noise, labels, metrics="map@r")
found = truerank.compare(one, two, names=["one", "two"])
print(found.differences[0].adjusted_p < 0.05)
#> True
```""",
        (
            *("plot", "neighbors", "Neighbors", "compare", "Comparison", "choose_threshold"),
            *("threshold_card", "ThresholdCard", "audit", "Audit", "explain", "Explanation"),
            "compression_sweep",
            *("CompressionSweep", "exact_neighbors", "ExactNeighbors", "shard", "report"),
            *("Task", "PublicTask", "leaderboard", "Board"),
        ),
    ),
    "api-training.md": (
        "API: losses, training and benchmarks",
        """Losses by name, a trainer, fair comparisons of losses, and readers of common data sets.
See also [losses](losses.md), [training options](training.md), [the benchmark
protocol](../concepts/protocol.md) and [data sets](data-sets.md).

```python
import torch
import truerank

loss = truerank.losses.get("multi_similarity")
embeddings = torch.randn(8, 16, requires_grad=True)
loss(embeddings, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])).backward()
```""",
        ("losses", "training", "benchmark", "datasets"),
    ),
    "api-extending.md": (
        "API: metrics, other tools and the engine",
        """For authors of evaluation code: metrics as values, replacements for other tools'
evaluators, checks of a metric function, and passes over all pairs. See also
[metrics](metrics.md), [coming from other tools](../guides/coming-from-other-tools.md),
[conformance](conformance.md) and [how it works inside](architecture.md).

```python
from truerank import metrics

metric = metrics.parse("mean_average_precision_at_r")
print(metric, metric.name, metric.cut)
#> map@r map r
```""",
        ("metrics", "compat", "conformance", "engine"),
    ),
}
"""Pages of the reference: a title, an introduction, and public names or whole modules."""
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
    "Explanation": (
        "truerank.conformance.explanation.Match",
        "truerank.conformance.explanation.UsedConvention",
    ),
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
    """A page that has the docstrings of some names put in, behind a table of these names."""
    title, introduction, names = REFERENCE[page]
    paths = []
    for name in names:
        if name[0].islower() and (SOURCE / name / "__init__.py").is_file():
            offered = listed(SOURCE / name / "__init__.py")
            paths += [f"truerank.{name}.{one}" for one in offered if not one.isupper()]
        else:
            paths += [f"truerank.{name}", *MORE.get(name, ())]
    rows = [f"| [`{shown(path)}`](#{path}) | {summary(path)} |" for path in paths]
    table = "\n".join(["| name | summary |", "| --- | --- |", *rows])
    blocks = [f"# {title}", introduction, table, *(f"::: {path}" for path in paths)]
    return "\n\n".join(blocks) + "\n"


def shown(path: str) -> str:
    """A public name without the package; of a class that no package lists, the name alone."""
    parts = path.split(".")
    return parts[-1] if len(parts) > 3 else ".".join(parts[1:])


def summary(path: str) -> str:
    """The first line of the docstring of a public name, read without importing it."""
    module, _, name = path.rpartition(".")
    file = SOURCE.parent.joinpath(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            bases = [*getattr(node, "bases", ()), None]
            if ast.get_docstring(node) is None and isinstance(bases[0], ast.Name):
                return summary(f"{module}.{bases[0].id}")
            return (ast.get_docstring(node) or "").partition("\n")[0]
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if name in (alias.name, alias.asname):
                    below = SOURCE.parent.joinpath(*f"{node.module}.{alias.name}".split("."))
                    if below.is_dir() or below.with_suffix(".py").is_file():
                        file = below / "__init__.py" if below.is_dir() else below.with_suffix(".py")
                        found = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
                        return (found or "").partition("\n")[0]
                    return summary(f"{node.module}.{alias.name}")
    return ""


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
