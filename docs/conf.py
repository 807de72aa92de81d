"""Sphinx builds the documentation from here: ``make docs``, or ``sphinx-build -W docs site``."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

sys.path.insert(0, str(ROOT / "docs"))

from _docstrings import markdown_math, math_lines  # noqa: E402
from _reference import write_reference  # noqa: E402

from partwise import __version__  # noqa: E402

project, author, release, version = "partwise", "the partwise developers", __version__, __version__
project_copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "_mathml", "numpydoc", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

# Links to other projects' documentation need the network to build, so they are asked for.
if os.environ.get("PARTWISE_DOCS_ONLINE"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "partwise"
html_static_path = ["_static"]
html_css_files = ["partwise.css"]
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "header_links_before_dropdown": 6,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}

autodoc_typehints = "none"  # signatures and numpydoc's sections say enough
autodoc_member_order = "bysource"
toc_object_entries = False  # headings name the objects already
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# The examples run when the documentation is built: their pictures and outputs are those of this version.
sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": str(ROOT / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "thumbnail_size": (480, 336),
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10_000,
    "plot_gallery": not os.environ.get("PARTWISE_DOCS_QUICK"),
    "abort_on_example_error": True,
}


# Docstrings are written to be read as they stand: |x| is an absolute value there and C_ a name, no markup.
_MARKUP = re.compile(r"(``.*?``|:\w+:`.*?`|`.*?`)|(\||\\(?={))|(\w_)(?=\W|$)")  # \{ is a difference of sets


def plain_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Formulas as TeX; and escape what reStructuredText would take for markup, outside of code."""
    lines[:] = math_lines(lines, display=what in ("class", "function", "module"))

    def escaped(match: re.Match[str]) -> str:
        return match[1] or (f"\\{match[2]}" if match[2] else match[3][:-1] + "\\_")

    displayed = False
    for number, line in enumerate(lines):
        displayed = line.startswith(".. math::") or (displayed and (not line or line.startswith("   ")))
        if not displayed and not line.lstrip().startswith((">>>", "...")):
            lines[number] = _MARKUP.sub(escaped, line)


def page_source(app: Any, name: str, source: list[str]) -> None:
    if str(app.env.doc2path(name)).endswith(".md"):
        source[0] = markdown_math(source[0])


def skip_member(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Skip scikit-learn's methods of metadata routing, and the fields of tuples, which have no text of their own."""
    field = str(getattr(value, "__doc__", "")).startswith("Alias for field number")
    return True if field or re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Any) -> None:
    app.connect("builder-inited", lambda app: write_reference(Path(app.srcdir) / "reference"))
    app.connect("source-read", page_source)
    app.connect("autodoc-process-docstring", plain_docstring, priority=400)  # before numpydoc
    app.connect("autodoc-skip-member", skip_member)
