"""Docstrings and pages with their formulas as TeX.

A formula is displayed by itself where a docstring opens with it or indents it; elsewhere it is a role.
"""

from __future__ import annotations

import re

from _math import LITERAL, formulas

__all__ = ["markdown_math", "math_lines", "outside_math"]

_RULE = re.compile(r"\s*=+(\s+=+)+\s*")


def outside_math(text: str) -> str:
    """What is left of a text of reStructuredText without its formulas and literals."""
    text = re.sub(r"\.\. math::\n\n(?: +.*\n?)+", "", text)
    return LITERAL.sub("", text)


def mixed_tex(text: str) -> str:
    """TeX of a displayed line, in which words stand between formulas."""
    tex, at = "", 0
    for start, stop, formula in formulas(text, displayed=True):
        tex += _words(text[at:start]) + formula
        at = stop
    return tex + _words(text[at:])


def _words(text: str) -> str:
    if not text.strip():
        return (r"\qquad " if len(text) > 1 else r"\ ") if text else ""
    wide = re.split(r"( {2,})", re.sub(r"([{}_])", r"\\\1", text))
    parts = [r"\qquad " if part.isspace() and len(part) > 1 else rf"\text{{{part}}}" for part in wide if part]
    return "".join(parts)


def display_block(lines: list[str]) -> list[str]:
    """A ``math`` directive of these lines."""
    rows = [mixed_tex(line.strip()) for line in lines]
    if len(rows) > 1:
        rows = [r"\begin{aligned}", *[f"& {row} " + r"\\" for row in rows], r"\end{aligned}"]
    return [".. math::", "", *[f"   {row}" for row in rows], ""]


def _inline(text: str) -> str:
    """A text with its formulas as roles."""
    out, at = "", 0
    for start, stop, tex in formulas(text):
        before, after = text[start - 1 : start], text[stop : stop + 1]
        lead = "" if not before or before.isspace() or before in "'\"([{<-/:" else "\\ "
        tail = "" if not after or after.isspace() or after in "'\")]}>-/:.,;!?" else "\\ "
        out += text[at:start] + f"{lead}:math:`{tex}`{tail}"
        at = stop
    return out + text[at:]


def _table(lines: list[str]) -> list[str]:
    """A simple table whose cells may hold formulas: columns are widened to fit."""
    spans = [match.span() for match in re.finditer(r"=+", lines[0])]
    spans[-1] = (spans[-1][0], 10_000)
    rows = [[] if set(line.strip()) <= {"=", " "} else [_inline(line[a:b].strip()) for a, b in spans] for line in lines]
    widths = [max([3, *(len(row[k]) for row in rows if row)]) for k in range(len(spans))]
    rule = "  ".join("=" * width for width in widths)
    return [rule if not row else "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows]  # fmt: skip


def _opening(paragraph: str) -> list[str] | None:
    """The first paragraph, displayed, if it begins with a long formula and goes on to explain it."""
    found = formulas(paragraph)
    if not found or found[0][0] != 0 or found[0][1] < 16:
        return None
    stop, rest = found[0][1], paragraph[found[0][1] :]
    if rest.strip() and not re.match(r"\s*[:.,(]", rest):
        return None
    if rest.startswith(":") or not rest.strip():
        rest = rest[1:].strip()
        rest = rest[:1].upper() + rest[1:] if not formulas(rest[:2]) else rest
        return [*display_block([paragraph[:stop].replace("\n", " ")]), *_inline(rest).split("\n")]
    return None


def math_lines(lines: list[str], display: bool = False) -> list[str]:
    """Lines of a docstring with TeX in place of its formulas; ``display``: show the opening formula by itself."""
    out: list[str] = []
    paragraphs = _paragraphs(lines)
    for number, (kind, block) in enumerate(paragraphs):
        if kind == "plain":
            out += block
        elif kind == "table":
            indent = block[0][: len(block[0]) - len(block[0].lstrip())]
            out += [indent + line for line in _table([line[len(indent) :] for line in block])]
        elif kind == "display":
            out += display_block(block)
        else:
            opening = _opening("\n".join(block)) if display and number == 0 else None
            out += opening if opening is not None else _inline("\n".join(block)).split("\n")
    return out


def _paragraphs(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Blocks of lines: text, tables, displayed formulas, and what is left as it is (blank lines, code, headings)."""
    blocks: list[tuple[str, list[str]]] = []
    at, before = 0, ""
    while at < len(lines):
        line = lines[at]
        if not line.strip() or re.fullmatch(r"\s*[-~^]{3,}\s*", line):
            blocks.append(("plain", [line]))
            at += 1
            continue
        stop = at
        while stop < len(lines) and lines[stop].strip() and not re.fullmatch(r"\s*[-~^]{3,}\s*", lines[stop]):
            stop += 1
        if _RULE.fullmatch(line):  # a table ends with its last rule
            stop = max(row for row in range(at, stop) if _RULE.fullmatch(lines[row])) + 1
        block = lines[at:stop]
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith((">>>", "...")) or _literal(before, indent):
            kind = "plain"
        elif _RULE.fullmatch(line):
            kind = "table"
        elif indent >= 3 and blocks and _displayed(before, indent, block):
            kind = "display"
        else:
            kind = "text"
        if kind == "text" and any(row.lstrip().startswith((">>>", "...")) for row in block):
            first = next(k for k, row in enumerate(block) if row.lstrip().startswith(">>>"))
            blocks += [("text", block[:first]), ("plain", block[first:])]
        else:
            blocks.append((kind, block))
        if not (kind == "plain" and indent > len(before) - len(before.lstrip()) and before.endswith("::")):
            before = block[-1]
        at = stop
    return blocks


def _literal(before: str, indent: int) -> bool:
    return before.rstrip().endswith("::") and indent > len(before) - len(before.lstrip())


def _displayed(before: str, indent: int, block: list[str]) -> bool:
    """Whether an indented block is a displayed formula: mostly symbols."""
    if indent <= len(before) - len(before.lstrip()) or re.match(r"\s*[\w, ]+ : ", before):
        return False
    text = "\n".join(block)
    return sum(stop - start for start, stop, _ in formulas(text)) > 0.25 * len(re.sub(r"\s+", " ", text))


def markdown_math(text: str) -> str:
    """A page of Markdown with its formulas between dollar signs, outside of code; cells of tables one by one."""
    out, fence, code = [], "", False
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+|:::+)", line)
        if mark and (not fence or line.strip() == fence):
            fence = "" if fence else mark[1]
            code = bool(fence) and "{glossary}" not in line
        elif not code and "$$" not in line:
            cells = re.split(r"(?<!\\)(\|)", line) if line.startswith("|") else [line]
            line = "".join(_dollars(cell) for cell in cells)
        out.append(line)
    return "\n".join(out)


def _dollars(text: str) -> str:
    out, at = "", 0
    for start, stop, tex in formulas(text):
        out += text[at:start] + f"${tex}$"
        at = stop
    return out + text[at:]
