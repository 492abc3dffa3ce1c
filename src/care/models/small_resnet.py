"""A ResNet for small images, fast on a CPU."""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu

WIDTHS = (32, 64, 128)  # of the stem and of every block


class SmallResNet(nn.Module):
    """A 5×5 stem of stride 2, two residual blocks of stride 2, and the mean over all positions.

    Training on a view of 24 px takes about 0.4 ms of one CPU core. The resolution is halved three times, so a view of
    24 px has 3 × 3 positions left; a network made for large images would leave one, or none.
    """

    def __init__(self) -> None:
        super().__init__()
        stem, *_, last = WIDTHS
        self.stem = nn.Sequential(nn.Conv2d(3, stem, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(stem))
        self.blocks = nn.Sequential(*(Block(before, after) for before, after in pairwise(WIDTHS)))
        self.num_features = last
        self.feature_info = [{"module": f"blocks.{i}"} for i in range(len(self.blocks))]

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n features"]:
        """One vector per image."""
        return self.forward_head(self.forward_features(images))

    def forward_features(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n c i j"]:
        """The last feature map."""
        return self.blocks(relu(self.stem(images)))

    def forward_intermediates(
        self,
        images: Float[Tensor, "n 3 h w"],
        indices: list[int],
        stop_early: bool = False,
        intermediates_only: bool = False,
    ) -> tuple[Tensor, list[Tensor]] | list[Tensor]:
        """(the last feature map, the maps of some blocks), or the latter only, as in models of timm."""
        maps = [relu(self.stem(images))]
        for block in self.blocks[: max(indices) + 1 if stop_early else None]:
            maps.append(block(maps[-1]))
        found = [maps[1:][i] for i in indices]
        return found if intermediates_only else (maps[-1], found)

    def forward_head(self, last: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c"]:
        """The mean over all positions."""
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
        """The output of the block."""
        return relu(self.main(x) + self.shortcut(x))
