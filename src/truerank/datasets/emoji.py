"""Emoji in eight designs: a retrieval task inside the package that needs no download.

It has two embeddings of 5,494 drawings, their labels in three levels, the design family of each
(the "camera"), a split into queries and gallery, and thumbnails of the drawings whose licence is
permissive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from truerank._util.errors import InputError
from truerank._util.installed import install

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MODELS = ("efficientnet", "pixels")
SHEET_SIDE = 64
"""Pixels of a thumbnail."""
SHEET_COLUMNS = 64
"""Thumbnails side by side in emoji.webp, which has those of all rows with a picture in order."""
SHARE_ALIKE = ("openmoji", "emojione-v1")
"""Families under CC-BY-SA-4.0, of which the package has no picture."""
CREDITS = (
    "Emoji by Google (Noto Emoji, Apache-2.0), Twitter (Twemoji, CC-BY-4.0), Microsoft (Fluent "
    "Emoji, MIT), Emoji One 2.3.0 (CC-BY-4.0) and Mozilla (Firefox OS Emoji, Apache-2.0), reduced "
    "to thumbnails. OpenMoji and Emoji One 1.5.2 (CC-BY-SA-4.0) are not shown."
)
"""The artists, for a page that shows their drawings."""


@dataclass(frozen=True, eq=False, repr=False)
class Emoji:
    """The emoji data set; every array has one row per drawing.

    Attributes
    ----------
    models : dict of (N, 64) float32 arrays
        The embeddings by the name of their model, "efficientnet" or "pixels".
    labels : (N,) str array
        The emoji that is drawn.
    levels : (N, 3) str array
        Category, subcategory and emoji: a tree, from coarse to fine.
    families : (N,) str array
        Who designed the drawing. Two drawings by one family share a style, as two photographs by
        one camera do.
    ids : (N,) str array
        A name for each drawing, "family/emoji"; all are different.
    is_query : (N,) bool array
        The queries; all other rows are the gallery.
    """

    models: dict[str, npt.NDArray[np.float32]]
    labels: npt.NDArray[np.str_]
    levels: npt.NDArray[np.str_]
    families: npt.NDArray[np.str_]
    ids: npt.NDArray[np.str_]
    is_query: npt.NDArray[np.bool_]

    def __repr__(self) -> str:
        queries = int(self.is_query.sum())
        return (
            f"Emoji({queries} queries, {len(self.ids) - queries} gallery rows, "
            f"models: {', '.join(self.models)})"
        )

    def task(self, model: str, *, hierarchy: bool = False) -> dict[str, Any]:
        """The arguments with which `truerank.evaluate` scores one model on the split.

        Parameters
        ----------
        model : str
            A key of `models`.
        hierarchy : bool
            Whether the labels are all three levels, or only the emoji.

        Returns
        -------
        dict
            embeddings, labels, gallery, gallery_labels, and the ids and groups (design families)
            of both sides.

        Examples
        --------
        >>> from truerank.datasets import emoji
        >>> task = emoji().task("pixels", hierarchy=True)
        >>> task["embeddings"].shape, task["gallery_labels"].shape
        ((1634, 64), (3860, 3))
        """
        if model not in self.models:
            raise InputError(
                f"The 'model' parameter of task must be one of {', '.join(self.models)}. "
                f"Got {model!r} instead."
            )
        embeddings = self.models[model]
        labels = self.levels if hierarchy else self.labels
        query, gallery = self.is_query, ~self.is_query
        return {
            "embeddings": embeddings[query],
            "labels": labels[query],
            "gallery": embeddings[gallery],
            "gallery_labels": labels[gallery],
            "query_ids": self.ids[query],
            "gallery_ids": self.ids[gallery],
            "query_groups": self.families[query],
            "gallery_groups": self.families[gallery],
        }

    def pictures(self) -> dict[str, Any]:
        """The arguments with which `Result.to_html` shows the drawings.

        Drawings by OpenMoji and Emoji One 1.5.2 have no picture: their licence is share-alike.
        Needs Pillow.

        Returns
        -------
        dict
            images and gallery_images, a Pillow image of 64 x 64 pixels or None per row, and the
            artists as credits.

        Examples
        --------
        >>> from truerank.datasets import emoji
        >>> shown = emoji().pictures()
        >>> len(shown["images"]), shown["images"][0].size, len(shown["gallery_images"])
        (1634, (64, 64), 3860)
        """
        from importlib.resources import files

        try:
            from PIL import Image
        except ImportError as error:
            raise InputError(f"images need Pillow: {install('report')}.") from error
        with (files("truerank.datasets") / "emoji.webp").open("rb") as file:
            sheet = Image.open(file).convert("RGB")
        found: dict[bool, list[Any]] = {True: [], False: []}
        place = 0
        held = has_picture(self.families)
        for has, is_query in zip(held.tolist(), self.is_query.tolist(), strict=True):
            picture = None
            if has:
                top, left = (SHEET_SIDE * at for at in divmod(place, SHEET_COLUMNS))
                picture = sheet.crop((left, top, left + SHEET_SIDE, top + SHEET_SIDE))
                place += 1
            found[is_query].append(picture)
        return {"images": found[True], "gallery_images": found[False], "credits": CREDITS}


def has_picture(families: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    """Whether the package has a thumbnail of a family's drawings."""
    import numpy as np

    return ~np.isin(families, SHARE_ALIKE)


def emoji() -> Emoji:
    """Load the emoji data set from the package.

    817 emoji, drawn by up to eight design families; given a drawing, find the same emoji by
    another designer. Each emoji has a category and a subcategory. The queries are the drawings of
    two families, Twemoji and Fluent; the gallery has the other six, and of emoji that come in skin
    tones also one toned drawing by every family. A toned drawing by the query's own family is all
    but the query itself: it has the query's label and group, so that it counts as junk. For 98 of
    the emoji every gallery drawing is withheld: their 196 queries have nothing to find, and say how
    often a system accepts an impostor.

    There are two embeddings, both reduced to 64 dimensions by a whitened PCA that was fitted on
    other emoji, and rounded to integers (which *are* the embedding): "pixels", a thumbnail of
    16 x 16 pixels, and "efficientnet", the pooled features of EfficientNet-lite0, trained on
    ImageNet. A few emoji are drawn alike, so that real ties occur.

    Returns
    -------
    Emoji
        Embeddings and labels. `task` has the arguments of `truerank.evaluate`, `pictures` those
        with which `Result.to_html` shows the drawings.

    Notes
    -----
    The package contains numbers computed from the drawings, and thumbnails of those under a
    permissive licence (all but OpenMoji and Emoji One 1.5.2). The drawings were made by: Google,
    Noto Emoji and its first version (Apache-2.0); Twitter, Twemoji (CC-BY-4.0); OpenMoji
    (CC-BY-SA-4.0); Microsoft, Fluent Emoji (MIT); Emoji One 2.3.0 (CC-BY-4.0) and 1.5.2
    (CC-BY-SA-4.0); Mozilla, Firefox OS Emoji (Apache-2.0). Names and categories are from
    emoji-datasource (MIT). scripts/build_emoji.py makes the files and gives all versions.

    Examples
    --------
    >>> import truerank
    >>> data = truerank.datasets.emoji()
    >>> data
    Emoji(1634 queries, 3860 gallery rows, models: efficientnet, pixels)
    >>> data.levels[0].tolist()
    ['Smileys & Emotion', 'face-smiling', 'grinning-face']
    >>> result = truerank.evaluate(**data.task("efficientnet"))
    >>> 0.4 < float(result["precision@1"]) < 0.6
    True
    """
    from importlib.resources import files

    import numpy as np

    with (files("truerank.datasets") / "emoji.npz").open("rb") as file:
        arrays = dict(np.load(file, allow_pickle=False))
    return Emoji(
        models={name: arrays[name].astype(np.float32) for name in _MODELS},
        labels=arrays["label"],
        levels=np.stack([arrays["category"], arrays["subcategory"], arrays["label"]], axis=1),
        families=arrays["family"],
        ids=arrays["id"],
        is_query=arrays["query"],
    )
