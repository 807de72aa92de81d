"""Formulas of docstrings become mathematics on the site: all of them, and with TeX that can be typeset."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import _docstrings  # noqa: E402
import _math  # noqa: E402
import _reference  # noqa: E402


def public_docstrings() -> dict[str, str]:
    """Docstrings of all public names, of their methods, and of the modules they live in."""
    found: dict[str, str] = {}
    for module, names in _reference.documented_names().items():
        home = importlib.import_module(module)
        found[module] = inspect.getdoc(home) or ""
        for name in names:
            value = getattr(home, name)
            if not callable(value):
                continue
            found[f"{module}.{name}"] = inspect.getdoc(value) or ""
            own = getattr(value, "__module__", "")
            if own.startswith("partwise"):
                found[own] = inspect.getdoc(importlib.import_module(own)) or ""
            for key, member in vars(value).items() if inspect.isclass(value) else ():
                if not key.startswith("_") and isinstance(member, (property, classmethod, staticmethod)):
                    member = getattr(member, "fget", None) or getattr(member, "__func__", None)
                if not key.startswith("_") and inspect.isroutine(member):
                    found[f"{module}.{name}.{key}"] = inspect.getdoc(member) or ""
    return found


DOCSTRINGS = public_docstrings()


def rendered(text: str) -> str:
    return "\n".join(_docstrings.math_lines(text.splitlines(), display=True))


def tex_of(text: str) -> list[str]:
    displayed = re.findall(r"\.\. math::\n\n((?: +.*(?:\n|$))+)", text)
    return [*re.findall(r":math:`(.*?)`", text, flags=re.S), *displayed]


def with_formula(text: str) -> bool:
    code = re.sub(r"^\s*(>>>|\.\.\.).*$", "", _math.LITERAL.sub("", text), flags=re.M)
    return any(letter in code for letter in _math.ESSENTIAL)


def test_every_formula_of_a_public_docstring_becomes_mathematics() -> None:
    names = [name for name, text in DOCSTRINGS.items() if with_formula(text)]
    assert len(names) > 180, "the count of docstrings with formulas"
    plain = {}
    for name in names:
        text = rendered(DOCSTRINGS[name])
        left = _docstrings.outside_math(re.sub(r"^\s*(>>>|\.\.\.).*$", "", text, flags=re.M))
        letters = sorted({letter for letter in left if letter in _math.ESSENTIAL})
        if letters or not tex_of(text):
            plain[name] = letters
    assert not plain


def test_the_tex_of_all_formulas_can_be_typeset() -> None:
    pytest.importorskip("docutils")
    mathml = pytest.importorskip("_mathml").mathml
    for name, text in DOCSTRINGS.items():
        for tex in tex_of(rendered(text)):
            element = mathml(tex.strip())
            assert element.startswith("<math"), name
            assert "*" not in element or "*" in DOCSTRINGS[name], f"{name}: a command that is not understood"


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("θᵀF_i(z_i − ẑ_i)", r"\theta^{\top} F_{i}(z_{i}- \hat{z}_{i})"),
        ("½‖θ‖²", r"\tfrac{1}{2}\left\lVert \theta\right\rVert^{2}"),
        ("argmax_{y ∈ Y(x)} s·z", r"\operatorname{argmax}_{y\in Y(x)}\, s\cdot z"),
        ("p(y | w_d) ∝ π_y Z_y", r"p(y\mid w_{d})\propto \pi_{y}\, Z_{y}"),
        ("ℓ(y', y)", r"\ell (y^{\prime}, y)"),
        ("√(Σ_{s ≤ t} ‖∇L_s‖²)", r"\sqrt{\sum_{s\le t}\, \left\lVert \nabla L_{s}\right\rVert^{2}}"),
        ("exp(scores·z)", r"\exp (\text{scores}\cdot z)"),
        ("O(n²L + n³)", "O(n^{2} L+ n^{3})"),
    ],
)
def test_tex(text: str, tex: str) -> None:
    assert _math.formulas(text) == [(0, len(text), tex)]


@pytest.mark.parametrize(
    "text",
    ["a list of n_jobs threads", "F1 and L2", "fit(X, y) returns self", "Weight of the losses", "−1 for all cores",
     "``θ`` and :func:`f`", "a (D, V) matrix", "A* search; I-X follows B-X", "3 × 4", "max_iter, tol", "AD³"],
)  # fmt: skip
def test_prose_is_no_formula(text: str) -> None:
    assert not _math.formulas(text)


def test_formulas_inside_sentences() -> None:
    text = "With γ > 0 the loss is at least Σ_i b_i, and θ = C·clip(v) is the answer (eq. (2))."
    found = [text[start:stop] for start, stop, _ in _math.formulas(text)]
    assert found == ["γ > 0", "Σ_i b_i", "θ = C·clip(v)"]


def test_displayed_formulas_tables_and_code() -> None:
    lines = ["Σ_i L_i(θ) + ½‖θ‖²: a sum.", "", "Then, with β = 1,", "", "    L = Σ_i θ·z_i,      (3)", "",
             "====  ====", "name  β", "====  ====", "crf   1", "====  ====", "", ">>> θ = 1", "", "Like this::", "",
             "    θ = 1"]  # fmt: skip
    text = "\n".join(_docstrings.math_lines(lines, display=True))
    assert text.startswith(".. math::\n\n   \\sum_{i}") and "\n\nA sum." in text
    assert r"L= \sum_{i}\, \theta \cdot z_{i}\text{,}\qquad \text{(3)}" in text
    assert ":math:`\\beta`" in text and ">>> θ = 1" in text and text.endswith("    θ = 1")


def test_markdown_keeps_code_and_cells() -> None:
    text = "With β = 1:\n\n| β | `θ` |\n|---|---|\n| ∞ | a |\n\n```python\nβ = 1\n```\n"
    page = _docstrings.markdown_math(text)
    assert page.startswith("With $\\beta = 1$:") and "| $\\beta$ | `θ` |" in page
    assert "| $\\infty$ | a |" in page and "```python\nβ = 1\n```" in page


#: What the papers are called; docs/papers.md lists them.
PAPERS = ("Martins et al.", "Lacoste-Julien", "Bartlett et al.", "Daumé", "Sarawagi", "Collins", "Crammer", "Osokin",
          "Le Priol", "Newman", "Taskar", "thesis")  # fmt: skip


def test_every_equation_is_cited_with_its_paper() -> None:
    """In the docstring itself, or in that of its class or module, which the reference shows above it."""
    nameless = []
    for name, text in DOCSTRINGS.items():
        if not re.search(r"\b[Ee]qs?\. \(?\d|\b(Figure|Algorithm|Theorem|Table) \d", text):
            continue
        scope = [text, DOCSTRINGS.get(name.rpartition(".")[0], "")]
        value = importlib.import_module("partwise")
        for part in name.split(".")[1:]:
            value = getattr(value, part, None) or importlib.import_module(f"{value.__name__}.{part}")
            scope.append(inspect.getdoc(value) or "")
            scope.append(inspect.getdoc(sys.modules.get(getattr(value, "__module__", ""), None)) or "")
        if not any(paper in text for text in scope for paper in PAPERS):
            nameless.append(name)
    assert not nameless
