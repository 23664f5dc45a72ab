"""What the second paper reports of BLOOM, to draw beside what is measured here. Nothing here was measured by headviz."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = (
    "Table 1 of “Surgical Repair of Collapsed Attention Heads in ALiBi Transformers” (arXiv 2603.09616): heads with a BOS "
    "mass above 0.5 on one text of about 55 tokens; the band is the range of head indices collapsed in more than 30% of "
    "the layers"
)


@dataclass(frozen=True, kw_only=True)
class PublishedBand:
    """One model's row. hub: where its weights are; collapsed of layers × heads; first..last: the band."""

    model: str
    hub: str
    layers: int
    heads: int
    hidden: int
    collapsed: int
    first: int
    last: int

    def slope(self, head: int) -> float:
        """BLOOM's own rule, for a number of heads that is a power of two, nats a token."""
        return 2 ** (-8 * (head + 1) / self.heads)

    @property
    def share(self) -> float:
        """Share of all heads that are collapsed, 0..1."""
        return self.collapsed / (self.layers * self.heads)


def _row(
    size: str, layers: int, heads: int, hidden: int, collapsed: int, first: int, last: int
) -> PublishedBand:
    return PublishedBand(
        model=f"BLOOM {size}", hub=f"bigscience/bloom-{size}", layers=layers, heads=heads, hidden=hidden,
        collapsed=collapsed, first=first, last=last,
    )  # fmt: skip


BLOOM: dict[str, PublishedBand] = {
    row.model: row
    for row in (
        _row("560m", 24, 16, 1024, 169, 9, 15),
        _row("1b7", 24, 16, 2048, 139, 9, 15),
        _row("3b", 30, 32, 2560, 365, 20, 30),
        _row("7b1", 30, 32, 4096, 296, 21, 30),
    )
}
