"""A ResNet for small pictures and small computers."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu


class SmallResNet(nn.Module):
    """A 5×5 stem of stride 2, two residual blocks of stride 2, and the mean over what is left of the picture.

    Learning from a view of 24 px takes about 0.4 ms of one CPU core. Half of the resolution goes at each of three
    steps, so 3 × 3 places are left of 24 px, where a network made for large pictures has one, or none.
    """

    def __init__(self, stem: int = 32, widths: tuple[int, ...] = (64, 128)) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, stem, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(stem))
        pairs = zip((stem, *widths[:-1]), widths, strict=True)
        self.blocks = nn.Sequential(*(Block(before, after) for before, after in pairs))
        self.num_features = widths[-1]
        self.feature_info = [{"module": f"blocks.{i}"} for i in range(len(widths))]

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n features"]:
        """One vector per image."""
        return self.forward_head(self.forward_features(images))

    def forward_features(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c i j"]:
        """The last map."""
        return self.blocks(relu(self.stem(images)))

    def forward_intermediates(
        self,
        images: Float[Tensor, "n 3 h w"],
        indices: list[int],
        stop_early: bool = False,
        intermediates_only: bool = False,
    ) -> tuple[Tensor, list[Tensor]] | list[Tensor]:
        """(the last map, those of some blocks), or these only, as models of timm give them."""
        maps = [relu(self.stem(images))]
        for block in self.blocks[: max(indices) + 1 if stop_early else None]:
            maps.append(block(maps[-1]))
        found = [maps[1:][i] for i in indices]
        return found if intermediates_only else (maps[-1], found)

    def forward_head(self, last: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c"]:
        """The mean over all places."""
        return last.mean(dim=(2, 3))


class Block(nn.Module):
    """relu(main(x) + shortcut(x)), at half the resolution."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, ceil_mode=True), nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after)
        )

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d i j"]:
        """The block."""
        return relu(self.main(x) + self.shortcut(x))
