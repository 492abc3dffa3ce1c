"""The paper's L_unif by itself, an ablation: embeddings of different images should be spread over the sphere."""

from care.losses import mean_over_pairs, uniformity
from care.objective import EncodedView, Method, Term, Terms


class Uniformity(Method):
    """L_unif = log E exp(f(a x)·f(a' x⁻)) over different images x and x⁻."""

    any_views = True

    def terms(self, *views: EncodedView) -> Terms:
        """L_unif of all pairs of views, over the images of all processes."""
        return {"uniformity": Term(mean_over_pairs(lambda a, b: uniformity(a.z, b.z), views))}
