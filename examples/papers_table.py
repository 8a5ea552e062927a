"""The table of a paper: two models, scores with intervals, and significance tests.

For researchers who fill a results table. Both models are scored on the same task, so the difference
is paired by class, and what makes a class hard for both models cancels.
"""

import truerank

data = truerank.datasets.emoji()  # 5,494 drawings of 817 emoji, embedded by two models
metrics = ["hit@1", "map@r", "dir@far=0.1"]
results = {model: truerank.evaluate(**data.task(model), metrics=metrics) for model in data.models}

print("| model |", " | ".join(metrics), "|")
print("| --- |", " | ".join("---:" for _ in metrics), "|")
for model, result in results.items():
    cells = []
    for score in result.values():
        low, high = score.interval  # of 95 %
        cells.append(f"{100 * score.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]")
    print("|", " | ".join([model, *cells]), "|")

comparison = truerank.compare(*results.values(), names=list(results))
print()
for row in comparison.differences:
    verb = "scores higher than" if row.value > 0 else "scores lower than"
    claim = verb if row.adjusted_p < 0.05 else "does not differ significantly from"  # Holm, 5 %
    print(f"{row.metric}: {row.first} {claim} {row.second}, {100 * row.value:+.1f} points")

print("\n" + comparison.to_latex())  # to_markdown() has the same table
