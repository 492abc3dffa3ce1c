"""A name such as `care.losses.info_nce` links to its entry of the reference, wherever it stands."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

NAME = re.compile(r"care(?:\.\w+)+$")


def setup(app: Sphinx) -> dict[str, Any]:
    """Look at every page when all of them are read."""
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class LinkNames(SphinxPostTransform):
    """Names in literals that the reference has become links."""

    default_priority = 700

    def run(self, **kwargs: Any) -> None:
        """Replace each of them that is no link yet."""
        objects = self.env.domains.python_domain.objects
        for node in list(self.document.findall(nodes.literal)):
            found = objects.get(node.astext()) if NAME.match(node.astext()) else None
            if found is None or isinstance(node.parent, nodes.reference):
                continue
            link = make_refnode(self.app.builder, self.env.docname, found.docname, found.node_id, node.deepcopy())
            node.replace_self(link)
