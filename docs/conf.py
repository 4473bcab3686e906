"""Sphinx configuration. `make docs` builds the site into build/docs; every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

from generate import write_pages  # noqa: E402

from tabapp import __version__  # noqa: E402

project = "tabapp"
project_copyright = "The tabapp authors"
author = "The tabapp authors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinxcontrib.asciinema",
]
source_suffix = {".md": "markdown"}
# Dashes stay as they are: an option begins with two.
smartquotes_action = "qe"
# Docstrings write names between single backquotes.
default_role = "code"
exclude_patterns = ["generated/parts/**", "_static/**"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist", "attrs_inline"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"tabapp {release}"
html_static_path = ["_static"]
html_css_files = ["tabapp.css"]
html_copy_source = False
html_show_sphinx = False


def _write_generated(app: Sphinx) -> None:
    write_pages(HERE / "generated")


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", _write_generated)
