"""Build an objective from settings, and refuse settings that contradict each other."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from care.augment import PRESETS, PointPolicy, policy_named
from care.augment.naming import POINT_POLICY, Policy
from care.models import Encoder, split_batchnorm
from care.objective.choice import Choice, choose
from care.objective.method import Context, Equivariance, Method
from care.objective.objective import Objective
from care.objective.registry import NONE, find
from care.objective.settings import Settings, setting
from care.objective.views import ViewPlan, ViewSpec


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings(Settings):
    """The encoder, the method and the equivariance: everything that decides what a batch teaches."""

    method: Choice = dataclasses.field(default_factory=lambda: choose("method", "simclr"))
    equivariance: Choice = dataclasses.field(default_factory=lambda: choose("equivariance", NONE))
    policy: str = setting(
        "cifar10",
        "Augmentations of the method's views: a preset, or one with changes, such as simclr:gray=0.1,scale=0.2-1,"
        "flip=0. Default: those of the data set; for other pictures mocov2, or small_images up to 64 px.",
    )
    second_policy: str | None = setting(
        None, "Augmentations of the method's second view, such as byol_second with --policy byol. Default: --policy."
    )
    size: int | None = setting(
        None,
        "Side of the views in pixels. Default: the policy's own, but no larger than the pictures.",
        at_least=8,
        at_most=4096,
    )
    train_size: int | None = setting(
        None,
        "Side of the views in pixels during training; at test time the encoder sees whole pictures of --size. Random "
        "crops enlarge objects, so views of 24 pixels show them as large as whole pictures of 32. Default: --size.",
        at_least=8,
        at_most=4096,
    )
    model: str = setting("resnet18", "Any timm model, small_resnet for small pictures, or deepset for point clouds.")
    stem: Literal["auto", "cifar", "tiny_imagenet", "imagenet"] = setting(
        "auto", "The stem of a ResNet, from fine to coarse; auto is cifar up to 32 px and tiny_imagenet up to 64 px."
    )
    embedding_dim: int = setting(
        128, "Dimension of the embedding, including the equivariant part of a split one; 2 is the circle.",
        at_least=2, at_most=1 << 16,
    )  # fmt: skip
    head_width: int = setting(512, "Width of the projection head.", at_least=1, at_most=1 << 16)
    head_depth: int = setting(2, "Layers of the projection head.", at_least=1, at_most=64)
    head_batchnorm: bool = setting(True, "BatchNorm between the layers of the projection head.")
    head_last_batchnorm: bool = setting(False, "BatchNorm also after the last layer of the projection head.")
    batchnorm: Literal["view", "joint"] = setting(
        "view", "Compute batch statistics per view, as the authors' program does, or jointly over all views."
    )

    @property
    def equivariant_dim(self) -> int:
        """Dimension of the equivariant part of a split embedding; 0 if the embedding is not split."""
        return int(getattr(self.equivariance.settings, "equivariant_dim", 0))

    @property
    def equivariant_layer(self) -> str | None:
        """The layer of the backbone that feeds the equivariant part; None for the final features."""
        return getattr(self.equivariance.settings, "equivariant_layer", None)

    @property
    def equivariant_depth(self) -> int:
        """Number of layers of the equivariant part's own head."""
        return int(getattr(self.equivariance.settings, "equivariant_depth", 2))

    @property
    def stop_gradient(self) -> bool:
        """Whether the losses of the equivariant part send no gradient into the backbone."""
        return bool(getattr(self.equivariance.settings, "stop_gradient", False))

    @property
    def equivariance_policy(self) -> str:
        """The augmentations of the equivariance: the method's, unless others were chosen."""
        return getattr(self.equivariance.settings, "equivariance_policy", None) or self.policy

    @property
    def training_policy(self) -> Policy:
        """The augmentations of the method's views, at the training size."""
        return policy_for(self.policy, self.train_size or self.size)

    @property
    def training_pixels(self) -> float:
        """Pixels of a training view divided by pixels of a view of the full size."""
        sides = (getattr(policy, "size", 1) for policy in (self.training_policy, policy_for(self.policy, self.size)))
        training, own = sides
        return (training / own) ** 2

    @property
    def micro_batches(self) -> int:
        """The number of batches whose gradients a step adds up."""
        return 1

    @property
    def form(self) -> str:
        """The bilinear form that augmentations should preserve."""
        return str(getattr(self.equivariance.settings, "form", "euclidean"))

    def context(self, batch: int, processes: int = 1) -> Context:
        """The context that the method and the equivariance are built for."""
        return Context(
            batch,
            self.embedding_dim,
            self.equivariant_dim,
            processes,
            self.head_width,
            self.head_last_batchnorm,
            joint=self.batchnorm == "joint",
            clouds=self.policy == POINT_POLICY,
            policy=_policy_of_equivariance(self),
            method_policy=self.training_policy,
            second_policy=_second_policy(self),
        )

    def check(self, batch: int, processes: int = 1) -> None:
        """ValueError, one sentence, for settings that make no sense together."""
        for name in (self.policy, self.second_policy or self.policy, self.equivariance_policy):
            if name not in (*PRESETS, POINT_POLICY):
                policy_named(name)  # its error lists the known policies
        if self.second_policy is not None and (POINT_POLICY in (self.policy, self.second_policy)):
            raise ValueError("second_policy is for images: point clouds have one policy")
        self._check_train_size()
        theirs = getattr(self.equivariance.settings, "equivariance_views", "own")
        if self.second_policy is not None and theirs not in ("own", "composed"):
            raise ValueError("second_policy needs the method's own views: choose equivariance_views own or composed")
        if batch % processes:
            raise ValueError(f"{processes} processes cannot share a batch of {batch} evenly: choose a multiple")
        method, equivariance = find("method", self.method.name), find("equivariance", self.equivariance.name)
        if method is None and equivariance is None:
            raise ValueError("there is nothing to train: both method and equivariance are none")
        context = self.context(batch, processes)
        if method is not None:
            method.check(self.method.settings, context)
        if equivariance is not None:
            equivariance.check(self.equivariance.settings, context, method)
        plan = view_plan(self, batch)
        if method is not None:
            method.check_step(self.method.settings, len(plan.method), batch * self.micro_batches)

    def _check_train_size(self) -> None:
        """ValueError for training views of point clouds, or for larger ones than those of the finished encoder."""
        if self.train_size is None:
            return
        if self.policy == POINT_POLICY:
            raise ValueError("train_size is for images: point clouds have no pixels, leave it out")
        side = getattr(policy_for(self.policy, self.size), "size", self.train_size)
        if self.train_size > side:
            raise ValueError(
                f"train_size {self.train_size} is larger than the views of {side} pixels: choose at most {side}, or a "
                f"size of at least {self.train_size}"
            )


def policy_for(name: str, size: int | None = None) -> Policy:
    """The policy called `name`: an image preset, at its own size or at `size`, or `rotations` for point clouds."""
    if name == POINT_POLICY:
        return PointPolicy()
    return policy_named(name) if size is None else policy_named(name).resized(size)


def view_plan(settings: ObjectiveSettings, batch: int) -> ViewPlan:
    """The views that a step draws, all of the size of the method's views."""
    policy = settings.training_policy
    method, equivariance = _classes(settings)
    views = () if method is None else method.views(settings.method.settings, policy, batch)
    if (second := _second_policy(settings)) is not None:
        views = _with_second(views, second)
    if equivariance is None:
        return ViewPlan(views, method=tuple(range(len(views))))
    plan = equivariance.plan(settings.equivariance.settings, views, _policy_of_equivariance(settings), batch)
    squares = equivariance.uses_theta and not equivariance.uses_differences(settings.equivariance.settings)
    return dataclasses.replace(plan, theta=plan.theta or equivariance.uses_theta, squares=squares)


def _policy_of_equivariance(settings: ObjectiveSettings) -> Policy:
    """The augmentations of the equivariance, at the size of the method's views."""
    return policy_for(settings.equivariance_policy, getattr(settings.training_policy, "size", None))


def _second_policy(settings: ObjectiveSettings) -> Policy | None:
    """The augmentations of the method's second view; None if both views share one policy."""
    if settings.second_policy is None:
        return None
    return policy_for(settings.second_policy, getattr(settings.training_policy, "size", None))


def _with_second(views: tuple[ViewSpec, ...], policy: Policy) -> tuple[ViewSpec, ...]:
    """The views of a method with the second one drawn from `policy`."""
    if len(views) < 2:
        raise ValueError(f"second_policy needs a method with two views, this one has {len(views)}")
    return (views[0], dataclasses.replace(views[1], policy=policy), *views[2:])


def build_objective(settings: ObjectiveSettings, encoder: Encoder, batch: int, processes: int = 1) -> Objective:
    """The objective that `settings` describe, around `encoder`, for batches of `batch` over all processes."""
    settings.check(batch, processes)
    context, (method, equivariance) = settings.context(batch, processes), _classes(settings)
    objective = Objective(
        encoder,
        None if method is None else method(settings.method.settings, encoder, context),
        None if equivariance is None else equivariance(settings.equivariance.settings, encoder, context),
        view_plan(settings, batch),
        settings.equivariant_dim,
        context.joint,
    )
    split_batchnorm(objective)
    if not objective.embedded:
        encoder.head.requires_grad_(False)  # no loss uses it, and the processes would wait for its gradients
    return objective


def build_encoder(settings: ObjectiveSettings, input_shape: tuple[int, ...], **normalization: Any) -> Encoder:
    """The encoder that `settings` describe, for views of shape `input_shape`."""
    return Encoder.build(
        settings.model,
        input_shape,
        settings.embedding_dim,
        settings.head_width,
        settings.head_depth,
        settings.head_batchnorm,
        settings.head_last_batchnorm,
        stem=settings.stem,
        equivariant_dim=settings.equivariant_dim,
        equivariant_layer=settings.equivariant_layer,
        equivariant_depth=settings.equivariant_depth,
        stop_gradient=settings.stop_gradient,
        **normalization,
    )


def _classes(settings: ObjectiveSettings) -> tuple[type[Method] | None, type[Equivariance] | None]:
    return find("method", settings.method.name), find("equivariance", settings.equivariance.name)
