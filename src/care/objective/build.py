"""From settings to an objective, and what cannot go together."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from care.augment import PRESETS, PointPolicy, policy_named
from care.models import Encoder, split_batchnorm
from care.objective.method import Context, Equivariance, Method
from care.objective.objective import Objective
from care.objective.registry import NONE, Kind, find
from care.objective.settings import Settings, setting, settings_as_dict
from care.objective.views import Policy, ViewPlan, ViewSpec

ROTATIONS = "rotations"  # the policy for point clouds


class Unchecked(dict[str, Any]):
    """Settings of code outside of care, as they were read: enough to load the encoder that was trained with it."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


@dataclass(frozen=True)
class Choice:
    """A method, or an equivariance, by name, with its settings."""

    name: str
    settings: Any = None

    def flat(self) -> dict[str, Any]:
        """The settings by name."""
        return dict(self.settings or {}) if _is_mapping(self.settings) else settings_as_dict(self.settings)


def choose(kind: Kind, name: str, **values: Any) -> Choice:
    """The choice of `name` with these settings; ValueError for a name or a setting that is not there."""
    found = find(kind, name)
    return Choice(name, None if found is None else found.Settings(**values))


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings(Settings):
    """An encoder, a method, and an equivariance: all that decides what is learned from a batch."""

    method: Choice = dataclasses.field(default_factory=lambda: choose("method", "simclr"))
    equivariance: Choice = dataclasses.field(default_factory=lambda: choose("equivariance", NONE))
    policy: str = setting(
        "cifar10",
        "Augmentations of the method's views, also with changes, simclr:gray=0.1,scale=0.2-1,flip=0. Default: those of "
        "the data set, mocov2 for a folder.",
    )
    second_policy: str | None = setting(
        None, "Augmentations of the method's second view, as byol_second beside byol. Default: --policy."
    )
    size: int | None = setting(
        None, "Side of the views in pixels. Default: the policy's own.", at_least=8, at_most=4096
    )
    train_size: int | None = setting(
        None,
        "Side of the views while training: a crop is enlarged, so what it shows is as large in a view of 24 pixels as "
        "in a whole picture of 32, which is what a finished encoder is given. Default: that of --size.",
        at_least=8,
        at_most=4096,
    )
    model: str = setting("resnet18", "Any timm model, small_resnet for small pictures, or deepset for point clouds.")
    stem: Literal["auto", "cifar", "tiny_imagenet", "imagenet"] = setting(
        "auto", "The stem of a ResNet, from fine to coarse; auto is cifar up to 32 px and tiny_imagenet up to 64 px."
    )
    embedding_dim: int = setting(
        128, "Dimension of the embedding, with the equivariant part of a split one; 2 is the circle.",
        at_least=2, at_most=1 << 16,
    )  # fmt: skip
    head_width: int = setting(512, "Width of the projection head.", at_least=1, at_most=1 << 16)
    head_depth: int = setting(2, "Layers of the projection head.", at_least=1, at_most=64)
    head_batchnorm: bool = setting(True, "BatchNorm between the layers of the projection head.")
    head_last_batchnorm: bool = setting(False, "BatchNorm at the end of the projection head, too.")
    batchnorm: Literal["view", "joint"] = setting(
        "view", "Statistics of each view for itself (the authors' program), or of all views together."
    )

    @property
    def equivariant_dim(self) -> int:
        """How many coordinates are the equivariant part of a split embedding; 0: it is not split."""
        return int(getattr(self.equivariance.settings, "equivariant_dim", 0))

    @property
    def equivariant_layer(self) -> str | None:
        """The layer of the backbone that the equivariant part is made from; None: its last features."""
        return getattr(self.equivariance.settings, "equivariant_layer", None)

    @property
    def equivariant_depth(self) -> int:
        """How many layers a head of the equivariant part has."""
        return int(getattr(self.equivariance.settings, "equivariant_depth", 2))

    @property
    def stop_gradient(self) -> bool:
        """Whether the equivariant part of a split embedding leaves the backbone to the method."""
        return bool(getattr(self.equivariance.settings, "stop_gradient", False))

    @property
    def equivariance_policy(self) -> str:
        """The augmentations of the equivariance, which are the method's unless others were chosen."""
        return getattr(self.equivariance.settings, "equivariance_policy", None) or self.policy

    @property
    def training_policy(self) -> Policy:
        """The augmentations of the method's views, at the size that they have while training."""
        return policy_for(self.policy, self.train_size or self.size)

    @property
    def training_pixels(self) -> float:
        """The pixels of a view while training, as a share of those of a view at its own size."""
        sides = (getattr(policy, "size", 1) for policy in (self.training_policy, policy_for(self.policy, self.size)))
        training, own = sides
        return (training / own) ** 2

    @property
    def form(self) -> str:
        """The bilinear form that augmentations should preserve."""
        return str(getattr(self.equivariance.settings, "form", "euclidean"))

    def context(self, batch: int, processes: int = 1) -> Context:
        """What the method is built for."""
        return Context(
            batch,
            self.embedding_dim,
            self.equivariant_dim,
            processes,
            self.head_width,
            self.head_last_batchnorm,
            joint=self.batchnorm == "joint",
            clouds=self.policy == ROTATIONS,
            policy=_policy_of_equivariance(self),
            method_policy=self.training_policy,
            second_policy=_second_policy(self),
        )

    def check(self, batch: int, processes: int = 1) -> None:
        """ValueError, one sentence, for settings that make no sense together."""
        for name in (self.policy, self.second_policy or self.policy, self.equivariance_policy):
            if name not in (*PRESETS, ROTATIONS):
                policy_named(name)  # says which there are
        if self.second_policy is not None and (ROTATIONS in (self.policy, self.second_policy)):
            raise ValueError("second_policy is for images: point clouds have one policy")
        theirs = getattr(self.equivariance.settings, "equivariance_views", "own")
        if self.second_policy is not None and theirs not in ("own", "composed"):
            raise ValueError("second_policy needs views of the method's own: equivariance_views own or composed")
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
        view_plan(self, batch)


def policy_for(name: str, size: int | None = None) -> Policy:
    """A preset for images by name, at its own size or another, or `rotations` for point clouds."""
    if name == ROTATIONS:
        return PointPolicy()
    return policy_named(name) if size is None else policy_named(name).resized(size)


def view_plan(settings: ObjectiveSettings, batch: int) -> ViewPlan:
    """Which views a step draws. All of them have the size of the method's."""
    policy = settings.training_policy
    method, equivariance = _classes(settings)
    views = () if method is None else method.views(settings.method.settings, policy, batch)
    if (second := _second_policy(settings)) is not None:
        views = _with_second(views, second)
    if equivariance is None:
        return ViewPlan(views, method=tuple(range(len(views))))
    plan = equivariance.plan(settings.equivariance.settings, views, _policy_of_equivariance(settings), batch)
    squares = equivariance.uses_theta and not equivariance.uses_differences
    return dataclasses.replace(plan, theta=plan.theta or equivariance.uses_theta, squares=squares)


def _policy_of_equivariance(settings: ObjectiveSettings) -> Policy:
    """The augmentations of the equivariance, for views of the size of the method's."""
    return policy_for(settings.equivariance_policy, getattr(settings.training_policy, "size", None))


def _second_policy(settings: ObjectiveSettings) -> Policy | None:
    """The augmentations of the method's second view, where they are not those of the first."""
    if settings.second_policy is None:
        return None
    return policy_for(settings.second_policy, getattr(settings.training_policy, "size", None))


def _with_second(views: tuple[ViewSpec, ...], policy: Policy) -> tuple[ViewSpec, ...]:
    """The views of a method, the second of them from another policy."""
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
        encoder.head.requires_grad_(False)  # no loss has it, and processes would wait for its gradients
    return objective


def build_encoder(settings: ObjectiveSettings, source: tuple[int, ...], **normalization: Any) -> Encoder:
    """The encoder that `settings` describe, for views of shape `source`."""
    return Encoder.build(
        settings.model,
        source,
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


def _is_mapping(settings: Any) -> bool:
    return settings is None or isinstance(settings, Unchecked)


def _classes(settings: ObjectiveSettings) -> tuple[type[Method] | None, type[Equivariance] | None]:
    return find("method", settings.method.name), find("equivariance", settings.equivariance.name)
