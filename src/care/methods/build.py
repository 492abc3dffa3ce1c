"""From settings to a method."""

import dataclasses
from typing import Any

from torch import nn

from care.augment import ImagePolicy, PointPolicy, policy_named
from care.geometry import form_named
from care.losses import (
    BYOL,
    CARE,
    BarlowTwins,
    InfoNCE,
    Invariance,
    QueueInfoNCE,
    SimSiam,
    Uniformity,
    VICReg,
)
from care.methods import moco
from care.methods.generators import generators_for
from care.methods.method import Method
from care.methods.predictive import Predictive
from care.methods.settings import MethodSettings, key_groups
from care.methods.views import ViewPlan, chunked_views, four_views, two_views
from care.models import Encoder, split_batchnorm


def build_method(settings: MethodSettings, encoder: Encoder, batch: int, processes: int = 1) -> Method:
    """The method that `settings` describe, around `encoder`, for batches of `batch` over all processes."""
    settings.check(batch, processes)
    chunks, form = settings.chunks // processes, form_named(settings.form)
    loss = CARE(
        siamese_loss(settings),
        weight=settings.equivariance,
        chunks=chunks,
        form=form,
        steering_weight=settings.steering,
        turned=settings.turned,
        orbit=settings.orbit,
        turning=settings.turning,
    )
    plan, joint = view_plan(settings, batch), settings.batchnorm == "joint"
    compared = settings.embedding - settings.turned
    method: Method
    if settings.method == "mocov2":
        groups = key_groups(batch, processes)
        method = moco.MoCo(encoder, loss, plan, joint, settings.queue, compared, groups)
    elif settings.method in ("byol", "simsiam"):
        width, moving = settings.head_width, settings.method == "byol"
        method = Predictive(encoder, loss, plan, joint, compared, width, moving)
    else:
        method = Method(encoder, loss, plan, joint)
    if settings.steering:
        method.generators = generators_for(settings.chunk_policy, min(settings.steering_rank, settings.embedding))
    split_batchnorm(method)
    return method


def siamese_loss(settings: MethodSettings) -> nn.Module | None:
    """The loss that takes InfoNCE's place; None for the equivariance loss alone."""
    temperature = settings.temperature
    losses: dict[str, nn.Module | None] = {
        "simclr": InfoNCE(temperature),
        "mocov2": QueueInfoNCE(temperature),
        "barlow_twins": BarlowTwins(),
        "vicreg": VICReg(),
        "byol": BYOL(),
        "simsiam": SimSiam(),
        "invariance": Invariance(),
        "uniformity": Uniformity(),
        "equivariance": None,
    }
    return losses[settings.method]


def view_plan(settings: MethodSettings, batch: int) -> ViewPlan:
    """Which views a step draws."""
    policy = policy_for(settings.policy, settings.size)
    chunk_policy = dataclasses.replace(policy_for(settings.chunk_policy, settings.size), identity=settings.identity)
    if not settings.chunked:
        return two_views(policy, batch, settings.chunks, per_chunk=0)
    if settings.method == "equivariance":
        plan = chunked_views(chunk_policy, settings.chunks, settings.shared_by)
    elif settings.views == 2:
        plan = two_views(chunk_policy, batch, settings.chunks, settings.chunked_views)
    else:
        plan = four_views(policy, chunk_policy, batch, settings.chunks, settings.shared_by)
    return dataclasses.replace(plan, steered=settings.steering > 0)


def policy_for(name: str, size: int | None = None) -> ImagePolicy | PointPolicy:
    """A preset for images by name, at its own size or another, or `rotations` for point clouds."""
    if name == "rotations":
        return PointPolicy()
    return policy_named(name) if size is None else policy_named(name).resized(size)


def build_encoder(settings: MethodSettings, source: tuple[int, ...], **normalization: Any) -> Encoder:
    """The encoder that `settings` describe, for views of shape `source`."""
    return Encoder.build(
        settings.model,
        source,
        settings.embedding,
        settings.head_width,
        settings.head_depth,
        settings.head_batchnorm,
        **normalization,
    )
