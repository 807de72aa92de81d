"""Formulas as MathML, made when the site is built: pages need no script and no network to show them.

docutils translates the TeX. What it cannot translate is a warning, and so an error of the build.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util import logging

__all__ = ["mathml", "setup"]

_log = logging.getLogger(__name__)


def mathml(tex: str, block: bool = False) -> str:
    """The ``<math>`` element of a formula."""
    return latex2mathml.tex2mathml(tex, as_block=block)


def _write(translator: Any, node: Any, block: bool) -> None:
    try:
        element = mathml(node.astext(), block)
    except Exception as error:  # of several kinds, all of them about the TeX
        _log.warning("no MathML for %r: %s", node.astext(), error, location=node)
        element = f"<code>{translator.encode(node.astext())}</code>"
    translator.body.append(f'<div class="math-block">{element}</div>' if block else element)
    raise nodes.SkipNode


def _inline(translator: Any, node: Any) -> None:
    _write(translator, node, block=False)


def _block(translator: Any, node: Any) -> None:
    _write(translator, node, block=True)


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
