"""Labels in a tree: scores at each level, and the severity of errors.

For searches in a catalogue with a taxonomy, where a wrong item of the right kind is a smaller
mistake than one of another kind. Here an emoji has a subcategory and a category.
"""

import truerank

data = truerank.datasets.emoji()
levels = ["category", "subcategory", "emoji"]  # from coarse to fine
metrics = ["h_ap", "asi", "ndcg", *(f"map@level={level}" for level in levels)]

results = {}
for model in data.models:
    task = data.task(model, hierarchy=True)
    for side in ("labels", "gallery_labels"):  # columns with names, as a table would have them
        task[side] = dict(zip(levels, task[side].T, strict=True))
    results[model] = truerank.evaluate(**task, metrics=metrics, confidence=None)

print(f"{'':22}", *(f"{model:>14}" for model in results), f"{'chance':>14}")
for name in metrics:
    scores = [result[name] for result in results.values()]
    chance = scores[0].chance  # of the labels alone, the same for every model
    print(f"{name:22}", *(f"{score.value:14.1%}" for score in scores), f"{chance:14.1%}")

for model, result in results.items():
    severity = result.severity()
    print(f"\n{model} finds the wrong emoji first for {severity.errors} of {severity.queries}:")
    for level, errors in severity.by_level.items():
        shared = "nothing" if level == "none" else f"the {level}"
        print(f"{errors:6} share {shared}")
