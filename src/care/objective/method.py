"""The base classes of methods: each file of `care.methods` subclasses one of them, and so does a method of your own.

There are two axes. A `Method` (SimCLR, MoCo-v2, BYOL, …) trains an encoder by itself. An `Equivariance` (CARE, a split
embedding, steering) adds losses that make augmentations act on the embedding. Any method combines with any
equivariance, unless a `check` refuses the pair and says why.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.augment.naming import Policy
from care.models import Encoder, forward_views
from care.objective.settings import Settings
from care.objective.views import EncodedView, ViewPlan, ViewSpec

Gather = Callable[[Tensor], Tensor]
EVERY_ROW = slice(None)


class Term(NamedTuple):
    """A term of the loss with its weight. The log shows the unweighted value.

    Adding terms applies their weights: `sum(terms.values())` equals `total(terms)`, the loss.
    """

    value: Float[Tensor, ""]
    weight: float = 1.0

    def __add__(self, other: Any) -> Float[Tensor, ""]:  # type: ignore[override]
        """weight · value + other, in place of the concatenation of tuples."""
        return self.weight * self.value + (other.weight * other.value if isinstance(other, Term) else other)

    def __radd__(self, other: Any) -> Float[Tensor, ""]:
        """The same with the operands swapped, because `sum` starts with 0."""
        return self + other


Terms = dict[str, Term]


def total(terms: Terms) -> Float[Tensor, ""]:
    """Σ weight · value."""
    return torch.stack([weight * value for value, weight in terms.values()]).sum()


@dataclass(frozen=True)
class Context:
    """The setting that a method is built for.

    A batch has `batch` samples over all `processes`: images, or point clouds if `clouds`. The last `equivariant_dim`
    coordinates of the embedding are its equivariant part; 0 if it is not split. `head_width` and `head_last_batchnorm`
    describe the projection head. The views of the equivariance are drawn from `policy`, those of the method from
    `method_policy`, and its second view from `second_policy` if that is given. With `joint`, BatchNorm computes its
    statistics over all views as one batch.
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
        """Number of coordinates that the method receives: all of them, unless the embedding is split."""
        return self.embedding_dim - self.equivariant_dim


class Method(nn.Module):
    """A self-supervised method. A subclass defines its loss (`terms`) and, where it needs them, its settings, its
    views, its own modules and buffers (in `__init__`), and an update after each step (`after_step`).

    `gathered`: the loss compares images with each other, so `terms` receives the embeddings of all processes, with
    gradients; `rows` selects this process's own. The loss is the mean over processes of what `terms` returns on each.
    `any_views`: the loss accepts two or more views, so the views of an equivariance can be added to the method's.
    `depends_on_length`: a step depends on the planned length of training.
    `head`: the published head, by setting: `embedding_dim`, `head_width`, `head_depth`, … and the method's own
    settings. `care.train.default_config` uses it for settings that were not chosen.
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
        """Raise ValueError, one sentence, for settings that cannot work here; called before anything is allocated."""

    @classmethod
    def check_step(cls, settings: Any, views: int, samples: int) -> None:
        """The same for settings that do not suit a step, in which the method receives `views` views of each sample.

        `samples` counts those of all micro-batches and processes, and `views` those that an equivariance adds.
        """

    @classmethod
    def views(cls, settings: Any, policy: Policy, batch: int) -> tuple[ViewSpec, ...]:
        """The views of the method. By default two, with an augmentation drawn for each sample."""
        return (ViewSpec(policy, batch), ViewSpec(policy, batch))

    @classmethod
    def encoder_views(cls, settings: Any, views: int) -> Sequence[int]:
        """The positions of the method's views that the encoder sees. By default all."""
        return range(views)

    @classmethod
    def teacher_views(cls, settings: Any, views: int) -> Sequence[int]:
        """The positions of the method's views that a teacher sees, at a forward pass each. By default none."""
        return ()

    def terms(self, *views: EncodedView) -> Terms:
        """The terms of the loss, from the views in the order in which `views` declared them."""
        raise TypeError(f"{type(self).__name__} does not say what its loss is: define terms(self, *views)")

    def condition_teacher(self, condition: "Equivariance") -> None:
        """Called if `condition` conditions the head on the augmentation: a teacher's head must be conditioned, too."""

    def after_step(self, encoder: Encoder, progress: Float[Tensor, ""]) -> None:
        """Update the method's state after an optimizer step; `progress` goes from 0 to 1 over training."""

    def forward_views(self, network: nn.Module, views: list[Tensor]) -> list[Tensor]:
        """[network(view) for view in views] in one pass, with the same BatchNorm mode as the encoder."""
        return forward_views(network, views, self.context.joint)


class Equivariance(nn.Module):
    """A loss added to a method so that augmentations act on the embedding.

    `uses_theta`: its views come with the coordinates θ of their augmentations.
    `on_features`: its loss uses the features of the backbone, so views that the method does not see skip the head.
    `conditions`: the head sees the augmentation as well, by `embed`.
    `whole`: it receives all coordinates of a split embedding, not only the equivariant part.
    The embeddings and features are those of this process's samples, which are whole chunks; `gather` concatenates them
    over all processes.

    Six settings mean the same in every equivariance that has them:
    `equivariant_dim`: the dimension of the equivariant part of a split embedding, which is its last coordinates.
    `equivariant_layer`: the layer of the backbone that feeds the equivariant part, if not the last.
    `equivariant_depth`: the number of layers of the equivariant part's own head.
    `stop_gradient`: the losses of the equivariant part train this head alone.
    `equivariance_policy`: the augmentations of the equivariance, if not those of the method.
    `form`: the bilinear form that augmentations should preserve.
    """

    Settings: ClassVar[type[Settings]] = Settings
    uses_theta: ClassVar[bool] = False
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
        """Raise ValueError, one sentence, for settings that cannot work in this context or with this method."""

    @classmethod
    def uses_differences(cls, settings: Any) -> bool:
        """Whether it uses θ only in differences between views of one image.

        These are valid for whole pictures of any shape; θ itself is defined for the central square.
        """
        return False

    @classmethod
    def plan(cls, settings: Any, views: tuple[ViewSpec, ...], policy: Policy, batch: int) -> ViewPlan:
        """The views of a step; `views` are the method's own, and `policy` draws those of the equivariance."""
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
        """The embeddings of `views`, which have features and θ. Called only if it `conditions` the head.

        `forward` sends several views through a network in one pass; by default `forward_views` does.
        """
        raise TypeError(f"{type(self).__name__} does not say how the head sees the augmentation: define embed")

    def forward_views(self, network: nn.Module, views: list[Tensor]) -> list[Tensor]:
        """[network(view) for view in views] in one pass, with the same BatchNorm mode as the encoder."""
        return forward_views(network, views, self.context.joint)

    def exported(self) -> dict[str, Tensor]:
        """Tensors that a finished run saves beside the weights of the encoder."""
        return {}


def on_one_process(x: Tensor) -> Tensor:
    """Gather over a single process: return `x` itself."""
    return x


def teacher_update(teacher: nn.Module, student: nn.Module, momentum: float | Tensor, buffers: bool = False) -> None:
    """θ_teacher ← m θ_teacher + (1 − m) θ_student.

    A teacher that sees images keeps its own BatchNorm statistics. One that sees none follows the `buffers`, too.
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
