"""The paper's L_unif by itself, an ablation: embeddings of different images should spread over the sphere."""

from care.losses import uniformity
from care.objective import EncodedView, Method, Term, Terms


class Uniformity(Method):
    """L_unif = log E exp(f(a x)·f(a' x⁻)) over different images x and x⁻."""

    def terms(self, *views: EncodedView) -> Terms:
        """L_unif of both views, over the images of all processes."""
        a, b = views
        return {"uniformity": Term(uniformity(a.z, b.z))}
