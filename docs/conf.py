"""The site: `uv run --group docs sphinx-build -W -b html docs docs/_build/html`."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "extensions"), str(DOCS.parent / "src")]

import care  # noqa: E402

project = "care"
author = "The care developers"
copyright = author
release = version = care.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docstrings",
    "formulae",
    "names",
    "pages",
]
exclude_patterns = ["_build", "extensions", "gallery"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4  # the anchors that code hosts give to headings
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "care"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["sort.js"]
html_copy_source = False
html_show_sphinx = False

copybutton_prompt_text = "$ "
highlight_language = "none"  # blocks without a language are commands

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    # Kept in the repository: what has not changed is not run again.
    "gallery_dirs": "made_gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "pictures.Place",
    "image_scrapers": ("pictures.keep_figures",),
    "reset_modules": ("pictures.quiet",),
    "min_reported_time": 3600,  # the clock of a busy machine tells nothing; the gallery's own page has CPU times
    "download_all_examples": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "show_signature": False,
    "inspect_global_variables": False,
    "capture_repr": (),
}
