"""The paper's L_inv by itself, an ablation: the two views of an image should have the same embedding."""

from care.losses import invariance, mean_over_pairs
from care.objective import EncodedView, Method, Term, Terms


class Invariance(Method):
    """L_inv = E_x ‖f(a x) − f(a' x)‖. By itself it collapses all embeddings to one point."""

    any_views = True

    def terms(self, *views: EncodedView) -> Terms:
        """L_inv of all pairs of views."""
        return {"invariance": Term(mean_over_pairs(lambda a, b: invariance(a.z, b.z), views))}
