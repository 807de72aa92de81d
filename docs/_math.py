"""Formulas in plain Unicode as TeX.

Docstrings are written to be read on a terminal: ``argmax_y Σ_t θᵀF_i(z_i − ẑ_i)``. For the site such formulas become
TeX. They need no markup: a formula is the longest stretch of symbols, single letters and names such as ``argmax``,
not interrupted by a word, with at least one character that prose does not have (a Greek letter, Σ, ‖, a subscript, …).
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

__all__ = ["ESSENTIAL", "LITERAL", "formulas"]

#: Characters that are found in formulas only; tests look for them outside of formulas.
ESSENTIAL = "αβγδεζηθκλμνξπρστφχψωΓΔΘΛΞΦΨΩΣΠ∈∉⊆‖∇∂√∝ᵀℓ½⟨⟩∞"

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau",
    "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda",
    "Ξ": "Xi", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega", "Σ": "sum", "Π": "prod", "ℓ": "ell", "∞": "infty",
    "∇": "nabla", "∂": "partial", "℘": "wp",
}  # fmt: skip
_OPERATORS = {
    "=": "=", "+": "+", "−": "-", "-": "-", "/": "/", "·": r"\cdot", "×": r"\times", "≤": r"\le", "≥": r"\ge",
    "<": "<", ">": ">", "≠": r"\ne", "∈": r"\in", "∉": r"\notin", "⊆": r"\subseteq", "∪": r"\cup", "∩": r"\cap",
    "∝": r"\propto", "~": r"\sim", "←": r"\leftarrow", "→": r"\to", "≈": r"\approx", "|": r"\mid", "∖": r"\backslash",
    "\\": r"\backslash", "±": r"\pm", "↔": r"\leftrightarrow",
}  # fmt: skip
_STRONG_OPERATORS = frozenset("−·×≤≥≠∈∉⊆∪∩∝←≈∖±")
_PREFIXES = frozenset("−≤≥≠∝±")
_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵏⁿⁱᵀ", [*"0123456789+-()kni", r"\top"], strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_ACCENTS = {"\u0302": "hat", "\u0304": "bar", "\u0303": "tilde"}
_NAMES = {"argmax", "argmin", "max", "min", "log", "exp", "Dir", "KL", "degree", "clip"}
_NAMES_STRONG = {"argmax", "argmin", "log", "exp", "Dir", "KL"}
#: Products of two Latin letters; all other Latin words are prose.
_PRODUCTS = {"Cm", "CmR", "kn", "knL", "nL", "BC"}
#: Single letters that are formulas when brackets follow: probabilities, expectations, entropies, orders.
_APPLIED = frozenset("pPEHOLY")
_OPEN, _CLOSE = "([{⟨", ")]}⟩"
LITERAL = re.compile(r"``.*?``|:[\w:]+:`.*?`|`.*?`_?_?|\*\*\w.*?\*\*", flags=re.S)
_REFERENCE = re.compile(r"\((?:\d+(?:\.\d+)?[a-z]?)\)(?!\w)")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-−]?\d+)?")
_LETTER = "[^\\W\\d_ᵀᵏⁿⁱ⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉½]"
_WORD = re.compile(rf"{_LETTER}+(?:[\u0300-\u036f]+{_LETTER}*)*")
_DIGITS = "0123456789"


class _Token(NamedTuple):
    kind: str  # "atom", "name", "big", "operator", "group", "number", "comma", "text"
    tex: str
    start: int
    stop: int
    strong: bool = False


def _is_greek(letter: str) -> bool:
    return letter in _GREEK


class _Reader:
    """Reads tokens.

    ``inside`` is True within brackets and scripts, where commas belong to the formula; ``words`` where words do, too:
    exp(scores·z), ‖z − point‖.
    """

    def __init__(
        self, text: str, start: int = 0, stop: int | None = None, inside: bool = False, words: bool = False
    ) -> None:
        self.text, self.at, self.stop = text, start, len(text) if stop is None else stop
        self.inside, self.words = inside, words

    def tokens(self) -> list[_Token]:
        found = []
        while self.at < self.stop:
            if self.text[self.at].isspace():
                self.at += 1
                continue
            found.append(self.token())
        return found

    def token(self) -> _Token:
        text, start = self.text, self.at
        literal = LITERAL.match(text, start, self.stop)
        if literal:
            return self.take("text", "", literal.end())
        reference = _REFERENCE.match(text, start, self.stop)
        if reference and not self.inside and (start == 0 or text[start - 1].isspace()):
            return self.take("text", "", reference.end())
        letter = text[start]
        if letter in _DIGITS:
            number = _NUMBER.match(text, start, self.stop)
            assert number
            self.at = number.end()
            following = _WORD.match(text, self.at, self.stop)
            if following:
                ordinal = following[0] in {"th", "nd", "st", "rd", "D"}
                if ordinal or (len(following[0]) > 2 and not any(map(_is_greek, following[0]))):
                    return self.take("text", "", following.end())
            return self.scripted(_Token("number", number[0].replace(",", "{,}"), start, self.at))
        if letter == "½":
            return self.take("number", r"\tfrac{1}{2}", start + 1, True)
        if letter == "√":
            return self.root()
        if letter == "‖" and (text[start - 1 : start] + text[start + 1 : start + 2]).isspace():
            return self.take("operator", r"\Vert ", start + 1, True)
        if letter == "‖" or (letter == "|" and self.bar_closes()):
            return self.bars(letter)
        if letter in _OPEN:
            return self.group()
        if letter.isalpha() or letter in "∞∇∂℘":
            return self.word()
        if letter in "…" or text.startswith("..", start):
            dots = re.compile(r"…|\.{2,3}").match(text, start)
            assert dots
            return self.take("number", r"\ldots", dots.end())
        if letter == "," or (self.inside and letter in ";:"):
            return self.take("comma" if self.inside else "text", ", " if letter == "," else letter + r"\ ", start + 1)
        if letter in _OPERATORS:
            around = text[start - 1 : start] + text[start + 1 : start + 2]
            if text.startswith((">=", "<="), start):
                return self.take("operator", r"\ge" if letter == ">" else r"\le", start + 2)
            if letter == "-" and not around.isspace() and not self.inside:
                return self.take("text", "", start + 1)
            if letter == "|" and not around.isspace():
                return self.take("text", "", start + 1)
            return self.take("operator", _OPERATORS[letter], start + 1, letter in _STRONG_OPERATORS)
        if letter in _SUPERSCRIPTS or letter in _SUBSCRIPTS:  # after a word: no formula
            return self.take("text", "", start + 1)
        return self.take("text", "", start + 1)

    def take(self, kind: str, tex: str, stop: int, strong: bool = False) -> _Token:
        token = _Token(kind, tex, self.at, stop, strong)
        self.at = stop
        return token

    def word(self) -> _Token:
        text, start = self.text, self.at
        if text[start] in "∞∇∂℘":
            self.at += 1
            return self.scripted(_Token("atom", f"\\{_GREEK[text[start]]} ", start, self.at, True))
        match = _WORD.match(text, start, self.stop)
        assert match
        word = match[0]
        plain = unicodedata.normalize("NFD", word)
        latin = [part for part in plain if not unicodedata.combining(part)]
        accented = any(mark in _ACCENTS for mark in plain)
        mathematical = any(_is_greek(part) for part in word) or (accented and len(latin) <= 2)
        after = text[match.end() : match.end() + 1]
        if word in ("inf", "Inf"):
            return self.take("atom", r"\infty ", match.end())
        if word in _NAMES:
            self.at = match.end()
            base = f"\\{word} " if word in ("max", "min", "log", "exp") else rf"\operatorname{{{word}}}"
            if after == "_" and re.match(r"_[A-Za-z]{3,}", text[match.end() :]):  # max_passes
                return self.identifier(start)
            token = self.scripted(_Token("name", base, start, self.at))
            strong = token.strong or (word in _NAMES_STRONG and self.followed_by_symbol(token.stop))
            return token._replace(kind="name", strong=strong)
        if len(latin) == 1 or mathematical:
            if after and after in _DIGITS and not mathematical:  # F1, L2
                end = re.compile(r"\w+").match(text, start)
                assert end
                return self.take("text", "", end.end())
            return self.atoms(start, match.end())
        if word in _PRODUCTS:
            return self.atoms(start, match.end())
        return self.identifier(start)

    def identifier(self, start: int) -> _Token:
        """A word of prose or a name of Python; part of a formula only within brackets, or as a factor (β·score)."""
        match = re.compile(r"[^\W⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉][\w'\u0300-\u036f]*").match(self.text, start, self.stop)
        assert match
        if self.inside and len(match[0]) == 2 and not re.search("[aeiou_]", match[0]):  # the nodes jk of an edge
            return self.take("atom", match[0], match.end())
        factor = "·" in (self.text[start - 1 : start], self.text[match.end() : match.end() + 1])
        kind = "word" if self.words or factor else "text"
        self.at = start
        tex = match[0].replace("_", r"\_")
        return self.take(kind, rf"\text{{{tex}}}", match.end())

    def followed_by_symbol(self, at: int) -> bool:
        """Whether a name such as log, or a bare Σ, stands before an argument."""
        following = re.compile(r"\s?([^\W\d_]+|\S)").match(self.text, at, self.stop)
        if following is None:
            return False
        word = following[1]
        single = len(word) == 1 and (word.isalpha() or word in "([{‖⟨√½") and word != "a"
        return single or word in _NAMES or any(map(_is_greek, word))

    def atoms(self, start: int, stop: int) -> _Token:
        """The first letter of a product, with its accents and scripts."""
        text = self.text
        letter, end = text[start], start + 1
        while end < stop and unicodedata.combining(text[end]):
            end += 1
        base = unicodedata.normalize("NFD", text[start:end])
        greek = _is_greek(base[0])
        tex = f"\\{_GREEK[base[0]]} " if greek else base[0]
        for mark in base[1:]:
            tex = rf"\{_ACCENTS[mark]}{{{tex.strip()}}}" if mark in _ACCENTS else tex
        self.at = end
        if letter in "ΣΠ":
            following = text[end : end + 2]
            if letter == "Π" and (
                following[:1] in ("(", "[") or (not self.followed_by_symbol(end) and following[:1] != "_")
            ):
                return self.scripted(_Token("atom", r"\Pi ", start, end, True))
            return self.scripted(_Token("big", tex, start, end, True))._replace(kind="big")
        token = self.scripted(_Token("atom", tex, start, end, greek or any(mark in _ACCENTS for mark in base)))
        if token.kind == "text":
            return token
        if letter in _APPLIED and text[token.stop : token.stop + 1] in ("(", "["):
            token = token._replace(strong=True)
        return token

    def scripted(self, token: _Token) -> _Token:
        """The token with its primes, subscripts and superscripts; a subscript makes it a formula."""
        text, tex, strong = self.text, token.tex, token.strong
        below, above, primes = "", "", ""
        while self.at < self.stop:
            letter = text[self.at]
            if letter in _SUPERSCRIPTS:
                above += _SUPERSCRIPTS[letter]
                self.at += 1
            elif letter in _SUBSCRIPTS:
                below += _SUBSCRIPTS[letter]
                self.at += 1
            elif (
                letter == "'"
                and token.kind == "atom"
                and not re.match(r"[^\W\d_]{1,}", text[self.at + 1 : self.at + 2])
            ):
                primes += "'"
                self.at += 1
            elif (
                letter == "*"
                and token.kind == "atom"
                and text[self.at - 1] != "A"
                and re.match(r"[\s)|,]", text[self.at + 1 : self.at + 2])
            ):
                above += "*"
                self.at += 1
            elif letter in "_^" and not (letter == "_" and token.kind == "number"):
                script = self.script()
                if script is None and letter == "_" and token.kind != "group" and re.match(r"\w", text[self.at + 1 :]):
                    return self.identifier(token.start)  # n_jobs
                if script is None:
                    break
                if letter == "_":
                    below += script
                else:
                    above += script
            else:
                break
            strong = strong or token.kind != "number" or bool(above)
        strong = strong if (below or above or primes) else token.strong
        if primes and not (below or above) and not token.strong:
            strong = True
        above = r"\prime " * len(primes) + above
        scripts = (f"_{{{below}}}" if below else "") + (f"^{{{above.strip()}}}" if above else "")
        base = f"{{{tex}}}" if token.kind == "group" and scripts else tex
        return token._replace(tex=base.rstrip() + scripts if scripts else tex, stop=self.at, strong=strong)

    def script(self) -> str | None:
        """What stands behind _ or ^: braces, or letters; None where it is part of a name such as ``n_jobs``."""
        text, at = self.text, self.at + 1
        if text[at : at + 1] == "{":
            close = _closing(text, at, self.stop)
            if close is None:
                return None
            self.at = close + 1
            return _inner(text, at + 1, close)
        match = re.compile(r"[A-Za-z0-9αβγδεζηθκλμνξπρστφχψωΓΔΘΛΞΦΨΩ·][\u0300-\u036f]?[A-Za-z0-9]*").match(
            text, at, self.stop
        )
        if match is None or not _index_like(match[0]):
            return None
        if re.match(r"_(?!{)", text[match.end() :]):  # n_iter_, 2^arc_bits
            return None
        self.at = match.end()
        return _inner(text, at, match.end()) if not match[0].isascii() or len(match[0]) == 1 else _letters(match[0])

    def root(self) -> _Token:
        start = self.at
        self.at += 1
        reader = _Reader(self.text, self.at, self.stop, True, True)
        token = reader.token()
        self.at = reader.at
        inner = token.tex[1:-1] if token.kind == "group" and token.tex[0] == "(" else token.tex
        return _Token("atom", rf"\sqrt{{{inner.strip()}}}", start, self.at, True)

    def bar_closes(self) -> bool:
        """Whether | begins an absolute value or a size."""
        close = self.text.find("|", self.at + 1, self.stop)
        inner = self.text[self.at + 1 : close] if close > 0 else " "
        return bool(inner) and not inner[0].isspace() and not inner[-1].isspace() and len(inner) < 60

    def at_division(self) -> bool:
        return self.text[self.at - 1 : self.at] == "/"

    def bars(self, bar: str) -> _Token:
        start = self.at
        close = self.text.find(bar, start + 1, self.stop)
        inner = (
            _Reader(self.text, start + 1, close, True, bar == "‖" or self.inside or self.at_division()).tokens()
            if close > 0
            else []
        )
        if not inner or any(token.kind == "text" for token in inner):
            return self.take("text", "", start + 1)
        self.at = close + 1
        left, right = (r"\left\lVert ", r"\right\rVert ") if bar == "‖" else (r"\left\lvert ", r"\right\rvert ")
        tex = left + _joined(self.text, inner) + right
        return self.scripted(_Token("atom", tex, start, self.at, bar == "‖" or any(token.strong for token in inner)))

    def group(self) -> _Token:
        start = self.at
        close = _closing(self.text, start, self.stop)
        applied = start > 0 and bool(re.match(r"[^\W\d_]|[\])}'⁺⁻]", self.text[start - 1])) and close is not None
        words = self.words or self.text[start] == "⟨" or (applied and self.after_symbol(start))
        inner = _Reader(self.text, start + 1, close, True, words).tokens() if close is not None else []
        if close is None or not inner or any(token.kind == "text" for token in inner):
            return self.take("text", "", start + 1)
        self.at = close + 1
        left, right = (_bracket(self.text[place]) for place in (start, close))
        tex = left + _joined(self.text, inner) + right
        strong = any(token.strong for token in inner)
        return self.scripted(_Token("group", tex, start, self.at, strong))

    def after_symbol(self, at: int) -> bool:
        """Whether brackets belong to a symbol, p(…) or exp(…), and not to a word, fit(…)."""
        before = re.search(r"[\w\u0300-\u036f]+$", self.text[:at])
        if before is None:
            return True
        word = before[0]
        return (
            word in _NAMES
            or bool(re.fullmatch(rf"({_LETTER}[\u0300-\u036f]?)([_^]\w{{1,4}})?", word))
            or any(map(_is_greek, word))
        )


def _bracket(letter: str) -> str:
    return {"{": r"\{", "}": r"\}", "⟨": r"\langle ", "⟩": r"\rangle "}.get(letter, letter)


def _index_like(word: str) -> bool:
    """Whether letters behind _ are a subscript, and not the rest of a name such as ``n_jobs``."""
    return word == "max" or not word.isascii() or (len(word) <= 4 and word not in ("jobs", "phi", "bits"))


def _letters(word: str) -> str:
    """Letters of a script: indices in a row, or a word."""
    return rf"\mathrm{{{word}}}" if word == "max" or (len(word) > 2 and re.search("[aeou]|d", word)) else word


def _inner(text: str, start: int, stop: int) -> str:
    tokens = _Reader(text, start, stop, True, True).tokens()
    if any(token.kind == "text" for token in tokens):
        return rf"\text{{{text[start:stop]}}}"
    return _joined(text, tokens)


def _closing(text: str, start: int, stop: int) -> int | None:
    depth = 0
    for place in range(start, stop):
        if text[place] in _OPEN:
            depth += 1
        elif text[place] in _CLOSE:
            depth -= 1
            if depth == 0:
                return place
    return None


def _joined(text: str, tokens: list[_Token]) -> str:
    """TeX of tokens in a row; a space between two symbols becomes a thin one."""
    tex = ""
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None:
            space = text[before.stop : token.start]
            if len(space) > 1 and "\n" not in space:
                tex += r"\quad "
            elif space and "word" in (before.kind, token.kind):
                tex += r"\ "
            elif space and before.kind != "operator" and token.kind != "operator" and before.kind != "comma":
                tex += r"\, "
            elif tex and (tex[-1].isalpha() or tex[-1] == "}") and token.tex[:1].isalpha():
                tex += " "
        tex += token.tex if not tex.endswith(tuple(_OPERATORS.values())) else " " + token.tex
    return tex.strip()


def _joins(text: str, run: list[_Token], token: _Token) -> bool:
    before = run[-1]
    gap = text[before.stop : token.start]
    if not gap:
        return not (before.kind == "number" and token.kind == "atom" and not token.strong and len(run) == 1)
    if len(gap) > 2 and "\n" not in gap:
        return False
    if re.match(r"\n\s*[\w, ]+ : ", text[before.stop :]) or re.match(r"\n\s*[*-] ", text[before.stop :]):
        return False
    if token.kind == "operator" or before.kind in ("operator", "name", "big"):
        return True
    if token.kind == "group":
        return token.strong and (before.strong or len(run) > 1)
    if before.kind == "number":
        return token.strong and len(run) > 1
    if token.kind == "atom" and not token.strong:  # F_i u, but not "θ a"
        return "\n" not in gap and text[token.start] not in "aAI" and (before.strong or len(run) > 2)
    return token.strong and (before.strong or len(run) > 1)


def _runs(text: str, displayed: bool = False) -> list[list[_Token]]:
    """The formulas of a text as lists of tokens; in displayed ones an equation of letters is a formula, too."""
    found: list[list[_Token]] = []
    run: list[_Token] = []

    def flush() -> None:
        while run and run[-1].kind in ("operator", "name"):
            run.pop()
        while run and ((run[0].kind == "operator" and text[run[0].start] not in _PREFIXES) or _bare(run[0])):
            run.pop(0)
        while run and run[0].kind == "atom" and not run[0].strong and len(run) > 1 and _spaced(text, run):
            run.pop(0)
        strong = any(token.strong for token in run) or (displayed and any(token.tex == "=" for token in run))
        source = text[run[0].start : run[-1].stop] if run else ""
        strong = strong and any(letter.isalpha() or letter in ESSENTIAL for letter in source)  # not −1, 3 × 4
        if strong and any(token.kind != "operator" for token in run):
            found.append(run.copy())
        run.clear()

    last = None
    for token in _Reader(text).tokens():
        attached = last is not None and last.kind == "text" and last.stop == token.start and token.kind == "group"
        last = token
        if token.kind in ("text", "comma") or (attached and re.match(r"[\w\])]", text[token.start - 1])):
            last = token._replace(kind="text")
            flush()
            continue
        if run and not _joins(text, run, token):
            flush()
        run.append(token)
    flush()
    return found


def _bare(token: _Token) -> bool:
    """An argmax at the beginning that names an oracle."""
    return token.kind == "name" and token.tex.startswith(r"\operatorname{arg") and "_" not in token.tex


def _spaced(text: str, run: list[_Token]) -> bool:
    """Whether the first token is a letter that only stands beside the second."""
    return run[1].kind != "operator" and text[run[0].stop : run[1].start].isspace()


def formulas(text: str, displayed: bool = False) -> list[tuple[int, int, str]]:
    """(start, stop, TeX) of every formula of a text."""
    return [(run[0].start, run[-1].stop, _joined(text, run)) for run in _runs(text, displayed)]
