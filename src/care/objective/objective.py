"""The objective of a run: an encoder, a method and an equivariance, which turn views into the terms of the loss."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from care.models import Encoder, forward_views
from care.objective.method import EVERY_ROW, Equivariance, Gather, Method, Terms, on_one_process
from care.objective.views import EncodedView, View, ViewPlan, with_embedding


class Objective(nn.Module):
    """L = L_method(c) + L_equivariance(r), with one pass through the encoder for all views of the same size.

    If the equivariance splits the embedding, z = (c, r) with c the invariant part; otherwise c = r = z. Called with the
    views that `plan` draws, it returns the terms of the loss by name.
    """

    def __init__(
        self,
        encoder: Encoder,
        method: Method | None,
        equivariance: Equivariance | None,
        plan: ViewPlan,
        equivariant_dim: int = 0,
        joint: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.method, self.equivariance = encoder, method, equivariance
        self.plan, self.equivariant_dim, self.joint = plan, equivariant_dim, joint
        if method is not None and equivariance is not None and equivariance.conditions:
            method.condition_teacher(equivariance)

    def forward(self, views: Sequence[View]) -> Terms:
        """The terms of the loss."""
        encoded = self._encode(views)
        terms: Terms = {}
        if self.method is not None:
            terms |= self.method.terms(*self._for_method([encoded[i] for i in self.plan.method]))
        if self.equivariance is not None:
            terms |= self.equivariance.terms(*self._equivariant(encoded))
        return terms

    def after_step(self, progress: Tensor) -> None:
        """Update the method's state after an optimizer step."""
        if self.method is not None:
            self.method.after_step(self.encoder, progress)

    def gather_by(self, gather: Gather, rows: slice = EVERY_ROW) -> None:
        """Use `gather` to concatenate over processes, with gradients; `rows` selects our own rows of the result."""
        for part in self.modules():  # a split embedding holds further equivariances
            if isinstance(part, Method | Equivariance):
                part.gather, part.rows = gather, rows

    def compile_networks(self) -> None:
        """Compile the encoders, and the heads and predictors of the method and of the equivariance."""
        for encoder in self.encoders:
            encoder.compile_encode()
        for part in filter(None, (self.method, self.equivariance)):
            for network in _heads(part):
                network.compile(dynamic=False)

    def exported(self) -> dict[str, Tensor]:
        """Tensors that a finished run saves beside the encoder's weights."""
        return {} if self.equivariance is None else self.equivariance.exported()

    @property
    def encoders(self) -> list[Encoder]:
        """The encoder and, if there is one, the teacher."""
        teacher = getattr(self.method, "teacher", None)
        return [self.encoder, *([teacher] if isinstance(teacher, Encoder) else [])]

    @property
    def seen(self) -> list[int]:
        """The positions of the views that the encoder sees."""
        return positions_seen(self.plan, self.method, getattr(self.method, "settings", None))

    @property
    def teacher_views_count(self) -> int:
        """Number of views that the teacher sees."""
        return teacher_views_count(self.plan, self.method, getattr(self.method, "settings", None))

    @property
    def embedded(self) -> list[int]:
        """The positions of the views that pass the head. Turned views do not: only their features are used."""
        if self.equivariance is None or not self.equivariance.on_features:
            return [i for i in self.seen if not self.plan.views[i].turned]
        alone = dataclasses.replace(self.plan, equivariance=())
        return positions_seen(alone, self.method, getattr(self.method, "settings", None))

    def _encode(self, views: Sequence[View]) -> Mapping[int, EncodedView]:
        """All views, with features and embeddings for those the encoder sees; one pass per view size."""
        encoded = {i: EncodedView(view.inputs, view.theta) for i, view in enumerate(views)}
        passes: dict[torch.Size, list[int]] = {}
        for i in self.seen:
            passes.setdefault(views[i].inputs.shape[1:], []).append(i)
        for positions in passes.values():
            encoded |= self._pass({i: encoded[i] for i in positions})
        return encoded

    def _equivariant(self, encoded: Mapping[int, EncodedView]) -> list[EncodedView]:
        """The views of the equivariance, with the equivariant part of the embedding, or with all of it if not split."""
        views = [encoded[i] for i in self.plan.equivariance]
        if self.plan.stopped:
            # After the method's pass: autocast would otherwise reuse weights that were cast here without a gradient.
            seen, rest = views[: -len(self.plan.stopped)], views[-len(self.plan.stopped) :]
            parts = self.encoder.equivariant_parts([view.inputs for view in rest], self.joint)
            return [*seen, *(with_embedding(view, r) for view, r in zip(rest, parts, strict=True))]
        if not self.equivariant_dim or (self.equivariance is not None and self.equivariance.whole):
            return views
        first = -self.equivariant_dim
        return [view if view.embedding is None else with_embedding(view, view.z[:, first:]) for view in views]

    def _pass(self, views: dict[int, EncodedView]) -> dict[int, EncodedView]:
        """Views by position, with their features and, for views that pass the head, their embeddings."""
        inputs, heads = [view.inputs for view in views.values()], [i for i in views if i in self.embedded]
        conditioning = self.equivariance if self.equivariance is not None and self.equivariance.conditions else None
        if conditioning is None and len(heads) == len(views) and not self.plan.stopped:
            both = zip(views.items(), self.encoder.encode_views(inputs, self.joint), strict=True)
            return {i: replace(view, features=f, embedding=z) for (i, view), (f, z) in both}
        found = zip(views.items(), self.encoder.features_of_views(inputs, self.joint), strict=True)
        views = {i: replace(view, features=f) for (i, view), f in found}
        if not heads:
            return views
        passing = [views[i] for i in heads]
        if conditioning is not None:
            embeddings = conditioning.embed(self.encoder.head, passing)
        else:
            embeddings = forward_views(self.encoder.head, [view.f for view in passing], self.joint)
        return views | {i: with_embedding(views[i], z) for i, z in zip(heads, embeddings, strict=True)}

    def _for_method(self, views: list[EncodedView]) -> list[EncodedView]:
        """The views with the invariant part of the embedding, gathered over processes if the method compares images."""
        embedded = [i for i, view in enumerate(views) if view.embedding is not None]
        rest = 0 if self.plan.stopped else self.equivariant_dim
        parts = {i: views[i].z[:, : views[i].z.shape[1] - rest] for i in embedded}
        if self.method is not None and self.method.gathered and self.method.gather is not on_one_process:
            parts = gather_together(parts, self.method.gather)
        return [with_embedding(view, parts[i]) if i in parts else view for i, view in enumerate(views)]


def _heads(module: nn.Module) -> Iterator[nn.Module]:
    """The multi-layer networks in `module`, encoders excepted."""
    for child in module.children():
        if isinstance(child, nn.Sequential):
            yield child
        elif not isinstance(child, Encoder):
            yield from _heads(child)


def gather_together(parts: Mapping[int, Tensor], gather: Gather) -> dict[int, Tensor]:
    """Gather every part; parts with equally many rows share a message, because latency dominates small messages."""
    messages: dict[int, list[int]] = {}
    for i, part in parts.items():
        messages.setdefault(len(part), []).append(i)
    found: dict[int, Tensor] = {}
    for together in messages.values():
        widths = [parts[i].shape[1] for i in together]
        columns = gather(torch.cat([parts[i] for i in together], dim=1)).split(widths, dim=1)
        found |= dict(zip(together, columns, strict=True))
    return found


def positions_seen(plan: ViewPlan, method: Method | type[Method] | None, settings: Any) -> list[int]:
    """The positions of the views that the encoder sees: the method may reserve some for its teacher."""
    encoded = () if method is None else method.encoder_views(settings, len(plan.method))
    passing = plan.equivariance[: len(plan.equivariance) - len(plan.stopped)]
    return sorted({*(plan.method[i] for i in encoded), *passing})


def encoder_cost(plan: ViewPlan, method: Method | type[Method] | None, settings: Any) -> float:
    """The cost of the views that the encoder sees, in views of the first one's size."""
    return whole_views(plan, positions_seen(plan, method, settings))


def whole_views(plan: ViewPlan, positions: Sequence[int]) -> float:
    """The pixels of the views at these positions, in views of the first one's size."""
    return sum(plan.views[i].pixels for i in positions) / plan.views[0].pixels


def teacher_views_count(plan: ViewPlan, method: Method | type[Method] | None, settings: Any) -> int:
    """Number of views that the method's teacher sees; 0 without a teacher."""
    return 0 if method is None else len(method.teacher_views(settings, len(plan.method)))


def views_cost(plan: ViewPlan, method: Method | type[Method] | None, settings: Any) -> float:
    """The cost of a step, in views of the first one's size.

    A view that a teacher sees, or that is stopped, goes forward only and counts a third: the backward pass is twice the
    work of the forward pass.
    """
    forward = whole_views(plan, plan.stopped)
    return encoder_cost(plan, method, settings) + (teacher_views_count(plan, method, settings) + forward) / 3
