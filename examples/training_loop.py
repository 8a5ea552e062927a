"""A PyTorch training loop with a loss of truerank, scored on held-out classes after each epoch.

For researchers who have a training loop already. A linear map of given features is trained on half
of the classes and tested on the others. Needs torch: pip install '.[torch]' in a checkout.
"""

import numpy as np
import torch

import truerank

data = truerank.datasets.emoji()
features = data.models["efficientnet"] / 32
classes = np.unique(data.labels, return_inverse=True)[1]
known = classes % 2 == 0  # the other classes are held out, all of their drawings
x, y = torch.tensor(features[known]), torch.tensor(classes[known])
held_out = torch.tensor(features[~known])
rules = {"labels": data.labels[~known], "query_groups": data.families[~known]}

torch.manual_seed(0)
torch.set_num_threads(1)  # batches are too small for several threads
model = torch.nn.Linear(64, 64, bias=False)
torch.nn.init.eye_(model.weight)  # epoch 0 is the features as they are
loss = truerank.losses.get("smooth_ap")
optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(6):
    if epoch > 0:
        order = y.unique()[torch.randperm(len(y.unique()))]
        for chosen in order.split(64):
            batch = torch.isin(y, chosen)
            optimiser.zero_grad()
            loss(model(x[batch]), y[batch]).backward()
            optimiser.step()
    with torch.no_grad():
        result = truerank.evaluate(
            model(held_out), **rules, metrics=["map@r", "hit@1"], confidence=None
        )
    print(f"epoch {epoch}:", *(f"{name} {score.value:.2%}" for name, score in result.items()))
