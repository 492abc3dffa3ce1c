"""What a method is: the base classes that every file of `care.methods` fills in, and that a method of your own does.

There are two axes. A `Method` (SimCLR, MoCo-v2, BYOL, …) trains an encoder by itself. An `Equivariance` (CARE, a split
embedding, steering) adds what makes augmentations act on the embedding. Any of one goes with any of the other, unless
its `check` says why not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.models import Encoder, forward_views
from care.objective.settings import Settings
from care.objective.views import EncodedView, Policy, ViewPlan, ViewSpec

Gather = Callable[[Tensor], Tensor]
EVERY_ROW = slice(None)


class Term(NamedTuple):
    """A term of the loss, which counts `weight` times. The log shows its value.

    Terms are added with their weights: `sum(terms.values())` is the loss, as `total(terms)` is.
    """

    value: Float[Tensor, ""]
    weight: float = 1.0

    def __add__(self, other: Any) -> Float[Tensor, ""]:  # type: ignore[override]
        """weight · value + other; a tuple would be made longer."""
        return self.weight * self.value + (other.weight * other.value if isinstance(other, Term) else other)

    def __radd__(self, other: Any) -> Float[Tensor, ""]:
        """The same: `sum` begins with 0."""
        return self + other


Terms = dict[str, Term]


def total(terms: Terms) -> Float[Tensor, ""]:
    """Σ weight · value."""
    return torch.stack([weight * value for value, weight in terms.values()]).sum()


@dataclass(frozen=True)
class Context:
    """What a method is built for: batches of `batch` samples over all `processes`, which are images or `clouds` of
    points, and embeddings of which the last `equivariant_dim` coordinates are the equivariant part, if any are.

    `head_width` and `head_last_batchnorm` are those of the projection head, `policy` has the augmentations of the
    equivariance's views, `method_policy` those of the method's, and `second_policy` those of its second view, where
    they are others. With `joint`, BatchNorm sees all views as one batch.
    """

    batch: int
    embedding_dim: int
    equivariant_dim: int = 0
    processes: int = 1
    head_width: int = 512
    head_last_batchnorm: bool = False
    joint: bool = False
    clouds: bool = False
    policy: Policy | None = None
    method_policy: Policy | None = None
    second_policy: Policy | None = None

    @property
    def invariant_dim(self) -> int:
        """How many coordinates the method receives: all of them, unless the embedding is split."""
        return self.embedding_dim - self.equivariant_dim


class Method(nn.Module):
    """A self-supervised method. A subclass says what its loss is (`terms`) and, where they differ from the usual ones,
    its settings, the views that it wants, its own modules and buffers (in `__init__`), and what happens after a step.

    `gathered`: its loss compares images with each other, so embeddings come from all processes, with gradients; `rows`
    of them are this process's own. The mean over processes of what each makes of it is the loss.
    `any_views`: its loss takes any number of views from two up, so that those of an equivariance can be among them.
    `depends_on_length`: whether what it does at a step depends on how long training will be.
    `head`: the head that it is published with, by the names of settings: `embedding_dim`, `head_width`, `head_depth`,
    … and its own. `care.train.default_config` takes it where nothing else is chosen.
    """

    Settings: ClassVar[type[Settings]] = Settings
    head: ClassVar[Mapping[str, Any]] = {}
    gathered: ClassVar[bool] = True
    any_views: ClassVar[bool] = False
    depends_on_length: ClassVar[bool] = False

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__()
        self.settings, self.context = settings, context
        self.gather: Gather = on_one_process
        self.rows = EVERY_ROW

    @classmethod
    def check(cls, settings: Any, context: Context) -> None:
        """ValueError, one sentence, for settings that make no sense for such batches; before anything is allocated."""

    @classmethod
    def views(cls, settings: Any, policy: Policy, batch: int) -> tuple[ViewSpec, ...]:
        """The views that it wants: two, each sample with an augmentation of its own."""
        return (ViewSpec(policy, batch), ViewSpec(policy, batch))

    @classmethod
    def encoder_views(cls, settings: Any, views: int) -> Sequence[int]:
        """The positions, of so many views, of those that the encoder sees: all of them."""
        return range(views)

    @classmethod
    def teacher_views(cls, settings: Any, views: int) -> Sequence[int]:
        """The positions, of so many views, of those that a teacher sees, which costs a forward pass each: none."""
        return ()

    def terms(self, *views: EncodedView) -> Terms:
        """The terms of the loss, from the views in the order in which they were asked for."""
        raise TypeError(f"{type(self).__name__} does not say what its loss is: define terms(self, *views)")

    def condition_teacher(self, condition: "Equivariance") -> None:
        """Called where `condition` lets the head see the augmentation: what else has a head must see it, too."""

    def after_step(self, encoder: Encoder, progress: Float[Tensor, ""]) -> None:
        """What it does after a step of the optimizer; `progress` goes from 0 to 1 over training."""

    def forward_views(self, network: nn.Module, views: list[Tensor]) -> list[Tensor]:
        """[network(view) for view in views] in one pass, with BatchNorm as it is in the encoder."""
        return forward_views(network, views, self.context.joint)


class Equivariance(nn.Module):
    """What is added to a method so that augmentations act on the embedding.

    `uses_theta`: whether its views come with the coordinates θ of their augmentations.
    `uses_differences`: of these it takes differences between views of an image alone, which are as true of a whole
    picture of any shape as of its central square.
    `on_features`: its loss is of the features of the backbone, so views that are not the method's pass no head.
    `conditions`: the head sees the augmentation as well, by `embed`.
    `whole`: of a split embedding it receives all coordinates, and not the equivariant part alone.
    Embeddings and features are those of the samples of a process, which hold whole chunks; `gather` has those of all.

    Six settings mean the same wherever they occur: `equivariant_dim`, the number of coordinates, the last ones, that
    are the equivariant part of a split embedding; `equivariant_layer`, the layer that it is made from, if not the last;
    `equivariant_depth`, how many layers the head has that makes it; `stop_gradient`, with which its losses train this
    head alone; `equivariance_policy`, the augmentations that it draws, if not those of the method; and `form`, the
    bilinear form that augmentations should preserve.
    """

    Settings: ClassVar[type[Settings]] = Settings
    uses_theta: ClassVar[bool] = False
    uses_differences: ClassVar[bool] = False
    on_features: ClassVar[bool] = False
    conditions: ClassVar[bool] = False
    whole: ClassVar[bool] = False

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__()
        self.settings, self.context = settings, context
        self.gather: Gather = on_one_process
        self.rows = EVERY_ROW

    @classmethod
    def check(cls, settings: Any, context: Context, method: type[Method] | None) -> None:
        """ValueError, one sentence, for settings that make no sense with such batches or with this method."""

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The views of a step, where the method alone would draw `views`; `policy` is that of the equivariance."""
        raise TypeError(f"{cls.__name__} does not say which views it wants: define plan")

    def terms(self, *views: EncodedView) -> Terms:
        """The terms of the loss, from the views that `plan` gives to the equivariance."""
        raise TypeError(f"{type(self).__name__} does not say what its loss is: define terms(self, *views)")

    def embed(
        self,
        head: nn.Module,
        views: list[EncodedView],
        forward: Callable[[nn.Module, list[Tensor]], list[Tensor]] | None = None,
    ) -> list[Tensor]:
        """The embeddings of views that have features and θ, if it `conditions` the head of the encoder.

        Several views go through a network by `forward`, or as `forward_views` does it.
        """
        raise TypeError(f"{type(self).__name__} does not say how the head sees the augmentation: define embed")

    def forward_views(self, network: nn.Module, views: list[Tensor]) -> list[Tensor]:
        """[network(view) for view in views] in one pass, with BatchNorm as it is in the encoder."""
        return forward_views(network, views, self.context.joint)

    def exported(self) -> dict[str, Tensor]:
        """Tensors that a finished run keeps beside the weights of the encoder."""
        return {}


def on_one_process(x: Tensor) -> Tensor:
    """What gathering over all processes is when there is one."""
    return x


def teacher_update(teacher: nn.Module, student: nn.Module, momentum: float | Tensor, buffers: bool = False) -> None:
    """θ_teacher ← m θ_teacher + (1 − m) θ_student.

    A teacher that sees images has BatchNorm statistics of its own. One that sees none takes the `buffers`, too.
    """
    _move(list(teacher.parameters()), list(student.parameters()), momentum)
    if buffers:
        ours, theirs = ([b for b in network.buffers() if b.is_floating_point()] for network in (teacher, student))
        _move(ours, theirs, momentum)


@torch.no_grad()
def _move(ours: list[Tensor], theirs: list[Tensor], momentum: float | Tensor) -> None:
    if not ours:
        return
    ours, theirs = ([tensor.detach() for tensor in tensors] for tensors in (ours, theirs))
    way = list(torch._foreach_sub(theirs, ours))
    torch._foreach_mul_(way, 1 - (momentum.to(ours[0].dtype) if isinstance(momentum, Tensor) else momentum))
    torch._foreach_add_(ours, way)
