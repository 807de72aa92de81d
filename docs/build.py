"""Build the documentation as HTML in site/: every page of docs/, the README, and an API reference from docstrings.

A broken link between pages is an error.
"""

from __future__ import annotations

import html
import importlib
import inspect
import re
import sys
from pathlib import Path

import markdown

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"
PAGES = [
    ("index", "partwise"),
    ("tutorial", "Ten-minute tutorial"),
    ("inputs", "Input kinds"),
    ("templates", "The template language"),
    ("choosing", "Choosing a loss and a learner"),
    ("custom_structure", "A structure of your own"),
    ("own_scorer", "Scores of your own"),
    ("serving", "Serving a model"),
    ("scikit_learn", "With scikit-learn and pandas"),
    ("search", "Learning to search"),
    ("cli", "Command line"),
    ("topics", "Topic models"),
    ("alignment", "Word alignment"),
    ("graphs", "Graphs and images"),
    ("factor_graphs", "Factor graphs"),
    ("parsing", "Dependency parsing"),
    ("phrases", "Phrase structure"),
    ("experiments", "Experiments"),
    ("benchmarks", "Benchmarks"),
    ("capabilities", "Structure × learner"),
    ("architecture", "Architecture"),
    ("api", "API reference"),
]
MODULES = [
    "partwise",
    "partwise.estimators",
    "partwise.structures",
    "partwise.learners",
    "partwise.losses",
    "partwise.costs",
    "partwise.problem",
    "partwise.features",
    "partwise.templates.template_list",
    "partwise.data",
    "partwise.sequences.tags",
    "partwise.metrics",
    "partwise.storage",
    "partwise.topics",
    "partwise.report",
    "partwise.experiment",
    "partwise.exceptions",
]
STYLE = """
body{font:16px/1.6 system-ui,sans-serif;max-width:62rem;margin:0 auto;padding:1rem 1.5rem 4rem}
body{color:#1c2430;background:#fff}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1rem;border-bottom:1px solid #d8dee8;padding-bottom:.6rem;font-size:.92rem}
nav a{color:#2158a8;text-decoration:none} nav a.here{font-weight:700;color:inherit}
pre{background:#f4f6fa;padding:.8rem 1rem;overflow:auto;border-radius:6px;font-size:.86rem;line-height:1.45}
code{font-family:ui-monospace,monospace;font-size:.92em} table{border-collapse:collapse;display:block;overflow:auto}
td,th{border:1px solid #d8dee8;padding:.3rem .6rem;text-align:left;vertical-align:top} h2{margin-top:2.2rem}
.signature{font-family:ui-monospace,monospace;background:#eef2f8;padding:.3rem .6rem;border-radius:4px;display:block}
@media(prefers-color-scheme:dark){body{background:#12161c;color:#dbe2ec}pre,.signature{background:#1d232c}
td,th,nav{border-color:#39424f}nav a,a{color:#8ab8ff}}
"""


def page_html(name: str, title: str, body: str, known: list[tuple[str, str]]) -> str:
    """A whole page around its body."""
    links = "".join(
        f'<a href="{page}.html"{" class=here" if page == name else ""}>{html.escape(label)}</a>'
        for page, label in known
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><nav>{links}</nav>{body}</body></html>"
    )


def api_markdown() -> str:
    """Every public name of every public module, with its docstring."""
    lines = ["# API reference", ""]
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        lines += [f"## {module_name}", "", (inspect.getdoc(module) or "").split("\n\n")[0], ""]
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            if module_name == "partwise" and thing.__module__ != "partwise":
                lines.append(f"- `{name}` from `{thing.__module__}`")
                continue
            try:
                signature = str(inspect.signature(thing))
            except (TypeError, ValueError):
                signature = ""
            lines += [
                f"### {name}",
                "",
                f'<span class="signature">{html.escape(name + signature)}</span>',
                "",
            ]
            lines += ["```text", inspect.getdoc(thing) or "", "```", ""]
            if inspect.isclass(thing):
                for method, function in inspect.getmembers(thing, inspect.isfunction):
                    if not method.startswith("_") and method in vars(thing) and function.__doc__:
                        head = html.escape(method + str(inspect.signature(function)))
                        lines += [f'<span class="signature">.{head}</span>', ""]
                        lines += ["```text", inspect.getdoc(function) or "", "```", ""]
    return "\n".join(lines)


def source_of(name: str) -> str | None:
    """Markdown of a page; None where there is none."""
    if name == "api":
        return api_markdown()
    path = ROOT / "README.md" if name == "index" else ROOT / "docs" / f"{name}.md"
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8")
    return text.replace("](docs/", "](") if name == "index" else text


def main() -> int:
    """Build all pages; returns the number of broken links."""
    SITE.mkdir(exist_ok=True)
    sources = {name: source_of(name) for name, _ in PAGES}
    known = [(name, title) for name, title in PAGES if sources[name] is not None]
    names = {name for name, _ in known}
    broken = 0
    for name, title in known:
        text = sources[name] or ""
        for target in re.findall(r"\]\(([\w./-]+)\.md(?:#[\w-]+)?\)", text):
            if target.split("/")[-1] not in names and not (ROOT / f"{target}.md").exists():
                print(f"{name}: broken link to {target}.md", file=sys.stderr)
                broken += 1
        text = re.sub(r"\]\(([\w-]+)\.md(#[\w-]+)?\)", r"](\1.html\2)", text)
        body = markdown.markdown(text, extensions=["tables", "fenced_code", "toc"])
        (SITE / f"{name}.html").write_text(page_html(name, title, body, known), encoding="utf-8")
    print(f"{len(known)} pages in {SITE.relative_to(ROOT)}/")
    return broken


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
