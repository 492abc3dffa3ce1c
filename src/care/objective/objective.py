"""The objective of a run: an encoder, a method, and an equivariance, from views to the terms of the loss."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from care.models import Encoder
from care.objective.method import Equivariance, Gather, Method, Terms
from care.objective.views import EncodedView, View, ViewPlan, with_embedding


class Objective(nn.Module):
    """L = L_method(c) + L_equivariance(r), of one pass of all views of as many samples through the encoder.

    The embedding is z for both or, where the equivariance splits it, z = (c, r), with c the invariant part. Called with
    what `plan` draws, it returns the terms of the loss by name.
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

    def forward(self, views: Sequence[View]) -> Terms:
        """The terms of the loss."""
        encoded = self._encode(views)
        terms: Terms = {}
        if self.method is not None:
            terms |= self.method.terms(*(self._for_method(encoded[i]) for i in self.plan.method))
        if self.equivariance is not None:
            terms |= self.equivariance.terms(*(self._for_equivariance(encoded[i]) for i in self.plan.equivariance))
        return terms

    def after_step(self, progress: Tensor) -> None:
        """What the method does after a step of the optimizer."""
        if self.method is not None:
            self.method.after_step(self.encoder, progress)

    def gather_by(self, gather: Gather) -> None:
        """Concatenate over processes by `gather`, which carries gradients back."""
        for part in (self.method, self.equivariance):
            if part is not None:
                part.gather = gather

    def exported(self) -> dict[str, Tensor]:
        """What a finished run keeps beside the encoder."""
        return {} if self.equivariance is None else self.equivariance.exported()

    @property
    def seen(self) -> list[int]:
        """The positions of the views that the encoder sees."""
        return positions_seen(self.plan, type(self.method) if self.method is not None else None)

    def _encode(self, views: Sequence[View]) -> Mapping[int, EncodedView]:
        """All views, and features and embeddings of those that the encoder sees, in one pass for all of a share."""
        outputs: dict[int, tuple[Tensor, Tensor]] = {}
        for share in dict.fromkeys(self.plan.views[i].share for i in self.seen):
            alike = [i for i in self.seen if self.plan.views[i].share == share]
            encoded = self.encoder.encode_views([views[i].inputs for i in alike], self.joint)
            outputs |= zip(alike, encoded, strict=True)
        return {i: EncodedView(view.inputs, view.theta, *outputs.get(i, (None, None))) for i, view in enumerate(views)}

    def _for_method(self, view: EncodedView) -> EncodedView:
        """With the invariant part of the embedding, of all processes if the method compares images."""
        if view.embedding is None or self.method is None:
            return view
        c = view.z[:, : view.z.shape[1] - self.equivariant_dim]
        return with_embedding(view, self.method.gather(c) if self.method.gathered else c)

    def _for_equivariance(self, view: EncodedView) -> EncodedView:
        """With the equivariant part of the embedding, or all of it where it is not split."""
        if not self.equivariant_dim:
            return view
        return with_embedding(view, view.z[:, view.z.shape[1] - self.equivariant_dim :])


def positions_seen(plan: ViewPlan, method: type[Method] | None) -> list[int]:
    """The positions of the views that the encoder sees: the method may leave out some that are for a teacher."""
    encoded = plan.method
    if method is not None and method.encoded is not None:
        encoded = tuple(plan.method[i] for i in method.encoded)
    return sorted({*encoded, *plan.equivariance})
