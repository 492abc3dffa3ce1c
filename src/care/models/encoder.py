"""The encoder f: backbone, projection head, and the normalization of the input that belongs to them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.frozen import in_evaluation
from care.models.backbones import build_backbone
from care.models.blocks import compile_blocks
from care.models.heads import projection_head
from care.models.layers import MIDDLE, layer_index, layer_names, layer_width, read_layer, read_up_to
from care.models.per_view import batchnorm_parts, forward_views


class Encoder(nn.Module):
    """x ↦ head(backbone((x − mean) / std)) for images in [0, 1], or point clouds.

    The losses and the paper's measures use this output; downstream tasks use the features of the backbone. With an
    `equivariant_head`, x ↦ (head(features), equivariant_head(h)), where h are the pooled features of an intermediate
    `layer`, or without one the final features.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        head: nn.Module,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        *,
        layer: str | None = None,
        equivariant_head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.backbone, self.head, self.equivariant_head = backbone, head, equivariant_head
        self.layer = None if layer is None else layer_index(backbone, layer)
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))

    @classmethod
    def build(
        cls,
        model: str,
        input_shape: tuple[int, ...],
        embedding_dim: int = 128,
        head_width: int = 512,
        head_depth: int = 2,
        head_batchnorm: bool = True,
        head_last_batchnorm: bool = False,
        mean: tuple[float, ...] = (0.0, 0.0, 0.0),
        std: tuple[float, ...] = (1.0, 1.0, 1.0),
        stem: str = "auto",
        equivariant_dim: int = 0,
        equivariant_layer: str | None = None,
        equivariant_depth: int = 2,
        stop_gradient: bool = False,
    ) -> "Encoder":
        """A new encoder, with weights from torch's global random state.

        With an `equivariant_layer`, a separate head of `equivariant_depth` layers computes the last `equivariant_dim`
        of the `embedding_dim` numbers from the features of this layer. With `stop_gradient` and no layer, such a head
        uses the final features. For a model whose layers cannot be read, "middle" means the final features.
        """
        backbone, features = build_backbone(model, input_shape, stem)
        kind = (head_depth, head_batchnorm, head_last_batchnorm)
        layer = None if equivariant_layer == MIDDLE and not layer_names(backbone) else equivariant_layer
        if layer is None and not stop_gradient:
            return cls(backbone, projection_head(features, head_width, embedding_dim, *kind), mean, std)
        width = features if layer is None else layer_width(backbone, input_shape, layer_index(backbone, layer))
        head = projection_head(features, head_width, embedding_dim - equivariant_dim, *kind)
        with torch.random.fork_rng(devices=()):  # later random weights, such as a predictor's, do not depend on it
            equivariant_head = projection_head(width, head_width, equivariant_dim, equivariant_depth, head_batchnorm)
        return cls(backbone, head, mean, std, layer=layer, equivariant_head=equivariant_head)

    @property
    def feature_dim(self) -> int:
        """The number of features of the backbone, the input of the head."""
        return next(layer.in_features for layer in self.head.modules() if isinstance(layer, nn.Linear))

    def features(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n features"]:
        """The backbone's output, un-normalized: the input of a linear probe."""
        return self.backbone(self._normalized(x))

    def read(self, x: Float[Tensor, "n ..."]) -> tuple[Float[Tensor, "n features"], Float[Tensor, "n width"]]:
        """(features, pooled features of the intermediate `layer`) of one pass; without a `layer`, both are the same."""
        if self.layer is None:
            features = self.features(x)
            return features, features
        return read_layer(self.backbone, self._normalized(x), self.layer)

    def project(
        self, features: Float[Tensor, "n features"], intermediate: Float[Tensor, "n width"]
    ) -> Float[Tensor, "n d"]:
        """The embedding, from the two outputs of `read`."""
        z = self.head(features)
        return z if self.equivariant_head is None else torch.cat([z, self.equivariant_head(intermediate)], dim=1)

    def forward(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n d"]:
        """The embedding; `Euclidean().embed` puts it on the sphere."""
        return self.project(*self.read(x))

    def encode(self, x: Float[Tensor, "n ..."]) -> tuple[Float[Tensor, "n features"], Float[Tensor, "n d"]]:
        """(features, embedding) of one pass."""
        features, intermediate = self.read(x)
        return features, self.project(features, intermediate)

    def encode_views(
        self, views: Sequence[Float[Tensor, "_ ..."]], joint: bool = False
    ) -> list[tuple[Float[Tensor, "_ features"], Float[Tensor, "_ d"]]]:
        """[encode(view) for view in views] in one pass; with `joint`, BatchNorm sees all views as one batch."""
        sizes = [len(view) for view in views]
        with batchnorm_parts(self, (1,) if joint else sizes):
            features, embeddings = self.encode(torch.cat(list(views)))
        return list(zip(features.split(sizes), embeddings.split(sizes), strict=True))

    def equivariant_parts(
        self, views: Sequence[Float[Tensor, "_ ..."]], joint: bool = False
    ) -> list[Float[Tensor, "_ t"]]:
        """The equivariant part of each view, by a pass that ends at its layer and leaves the backbone unchanged.

        The backbone gets no gradient and is in evaluation mode, so its BatchNorm statistics do not follow these views.
        """
        x = self._normalized(torch.cat(list(views)))
        with torch.no_grad(), in_evaluation(self.backbone):
            read = self.backbone(x) if self.layer is None else read_up_to(self.backbone, x, self.layer)
        assert self.equivariant_head is not None
        return forward_views(self.equivariant_head, read.split([len(view) for view in views]), joint)

    def features_of_views(
        self, views: Sequence[Float[Tensor, "_ ..."]], joint: bool = False
    ) -> list[Float[Tensor, "_ features"]]:
        """[features(view) for view in views] in one pass, as `encode_views` but without the head."""
        sizes = [len(view) for view in views]
        with batchnorm_parts(self, (1,) if joint else sizes):
            return list(self.features(torch.cat(list(views))).split(sizes))

    @property
    def memory_format(self) -> torch.memory_format:
        """The fastest memory format for its convolutions: channels last, unless torch does not support it."""
        modules = list(self.modules())
        if any(isinstance(module, nn.Conv3d) for module in modules):
            return torch.contiguous_format
        on_images = [module for module in modules if isinstance(module, nn.Conv2d) and module.in_channels == 3]
        # On a CPU, the gradient of such a convolution writes out of bounds with channels last.
        unsafe = any(module.kernel_size == (1, 1) and module.stride != (1, 1) for module in on_images)
        return torch.contiguous_format if unsafe and self.mean.device.type == "cpu" else torch.channels_last

    def compile_encode(self) -> None:
        """Compile the network for batches of one shape: block by block, or `encode` as a whole if it has no blocks."""
        if compile_blocks(self.backbone):
            for head in filter(None, (self.head, self.equivariant_head)):
                head.compile(dynamic=False)
        else:
            self.encode = torch.compile(self.encode, dynamic=False)  # type: ignore[method-assign]

    def _normalized(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n ..."]:
        shape = (1, -1, 1, 1) if x.ndim == 4 else (1, 1, -1)
        return (x - self.mean.view(shape)) / self.std.view(shape)


class Features(nn.Module):
    """An encoder without its head: `forward` returns the un-normalized features of images in [0, 1]."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Tensor:
        """`encoder.features(x)`."""
        return self.encoder.features(x)
