"""The paper's L_inv by itself, an ablation: the two views of an image should have one embedding."""

from care.losses import invariance
from care.objective import EncodedView, Method, Term, Terms


class Invariance(Method):
    """L_inv = E_x ‖f(a x) − f(a' x)‖. By itself it makes one point of everything."""

    def terms(self, *views: EncodedView) -> Terms:
        """L_inv of both views."""
        a, b = views
        return {"invariance": Term(invariance(a.z, b.z))}
