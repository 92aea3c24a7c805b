"""Split a corpus at random, and remove texts that are in two splits."""

import random
from collections.abc import Hashable, Mapping, Sequence

from .duplicates import text_key
from .items import Item, item_group, item_id, item_text

# A text that is in two splits stays in the one that stands first here.
PRECEDENCE = ("test", "dev", "train")


def parse_shares(text: str) -> dict[str, float]:
    """Parse the shares of the splits, such as "0.8,0.1,0.1" for train, dev and test, or "0.9,0.1"
    for train and dev."""
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if len(shares) not in (2, 3) or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(
            f"--split {text!r} is not a list of shares. Give those of train, dev and test, or of "
            "train and dev: positive numbers whose sum is 1, such as 0.8,0.1,0.1."
        )
    return dict(zip(("train", "dev", "test"), shares, strict=False))


def partition(items: Sequence[Item], shares: Mapping[str, float], seed: int) -> dict[str, list]:
    """Split items at random.

    Items of one group, and items with the same text, are in one split. Shares are of the number of
    items; they are met as closely as the sizes of the groups allow. Items keep their order.

    Args:
        items: The items.
        shares: The share of each split, by its name.
        seed: The seed of the draw.

    Raises:
        ValueError: If a split would be empty.
    """
    keys = [_keys(item) for item in items]
    bundles = connected(keys)
    random.Random(seed).shuffle(bundles)
    missing = {name: share * len(items) for name, share in shares.items()}
    chosen: dict[int, str] = {}
    for bundle in bundles:
        name = max(missing, key=lambda name: missing[name])
        missing[name] -= len(bundle)
        chosen.update(dict.fromkeys(bundle, name))
    splits: dict[str, list] = {name: [] for name in shares}
    for index, item in enumerate(items):
        splits[chosen[index]].append(item)
    empty = [name for name, found in splits.items() if not found]
    if empty:
        raise ValueError(
            f"--split leaves nothing for {', '.join(empty)}: there are {len(items)} items in "
            f"{len(bundles)} groups. Give larger shares, or a --group with more values."
        )
    return splits


def _keys(item: Item) -> list[Hashable]:
    """Return what an item shares with those that must be in the same split."""
    keys: list[Hashable] = []
    if item_group(item):
        keys.append(("group", item_group(item)))
    if key := text_key(item_text(item)):
        keys.append(("text", key))
    return keys


def connected(keys: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Return the indices of items that are connected by keys they share, in order.

    keys: The keys of each item.
    """
    parents = list(range(len(keys)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    first: dict[Hashable, int] = {}
    for index, own in enumerate(keys):
        for key in own:
            a, b = root(first.setdefault(key, index)), root(index)
            parents[max(a, b)] = min(a, b)
    bundles: dict[int, list[int]] = {}
    for index in range(len(keys)):
        bundles.setdefault(root(index), []).append(index)
    return list(bundles.values())


def remove_duplicates(
    splits: Mapping[str, list[Item]],
) -> tuple[dict[str, list[Item]], dict[str, list[str]]]:
    """Remove the items whose text is also in a split of higher precedence: test, dev, train.

    A text that occurs twice in one split stays twice.

    Args:
        splits: The items of each split.

    Returns:
        The items that are left, and the ids of those that were removed.

    Raises:
        ValueError: If nothing of a split is left.
    """
    ordered = sorted(splits, key=lambda name: PRECEDENCE.index(name))
    seen: set[bytes] = set()
    kept: dict[str, list[Item]] = {}
    removed: dict[str, list[str]] = {}
    for name in ordered:
        keys = [text_key(item_text(item)) for item in splits[name]]
        pairs = list(zip(splits[name], keys, strict=True))
        kept[name] = [item for item, key in pairs if key not in seen]
        removed[name] = [item_id(item) for item, key in pairs if key in seen]
        if not kept[name]:
            raise ValueError(
                f"--dedup leaves nothing of {name}: all of its texts are also in another split."
            )
        seen.update(key for key in keys if key)
    return {name: kept[name] for name in splits}, {name: removed[name] for name in splits}
