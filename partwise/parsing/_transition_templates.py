"""What a transition parser looks at: places around the stack and the buffer, what is known of each, and templates.

A template joins up to four atoms, each a view of a place: ``s0.x b0.lp`` is the fine tag of the top of the stack with
lemma and tag of the first word of the buffer. The number of an atom is 64 bits long; those of a template are turned,
added and multiplied, and the high bits of the product are a row of weights.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel
from partwise.parsing._arc_kernels import distance_bin
from partwise.parsing._transition_system import (
    BUFFER,
    DEPTH,
    HEAD,
    LABEL,
    LEFT_CHILD,
    LEFT_LABELS,
    N_LEFT,
    N_RIGHT,
    NEXT_INNER,
    PENDING,
    RIGHT_CHILD,
    RIGHT_LABELS,
    STACK,
    field_of,
)  # fmt: skip
from partwise.parsing._word_views import (
    AGREEMENT,
    CASE,
    FEATS,
    FORM,
    LEMMA,
    MULTIPLIER,
    SUFFIX,
    UPOS,
    VERB,
    XPOS,
    mix,
)  # fmt: skip

__all__ = ["LABEL_TEMPLATES", "STEP_TEMPLATES", "VIEWS", "label_atoms", "rows_of", "step_atoms", "word_table"]

#: What is known of a word before parsing: fine tag, coarse tag, form, lemma, …
VIEWS = ("x", "p", "w", "l", "lp", "fx", "s", "k", "v", "g")
#: What is known of it from the arcs built so far: its relation, how many children it has and their relations.
BUILT = ("d", "nl", "nr", "ls", "rs")
N_VIEWS, N_ATOMS = 10, 15

#: Places of a step: top of the stack, first of the buffer, their neighbours in the stack, in the text and in the tree.
STEP_PLACES = (
    "s0", "s1", "s2", "b0", "b1", "b2", "s0-", "s0+", "b0-", "s1+", "s0l", "s0m", "s0r", "s0q", "s1l", "s1r", "s1q",
    "b0l", "b0m",
)  # fmt: skip
N_STEP_PLACES = 19
#: Places of an arc to be named: modifier and head, their neighbours, children of both and the modifier's inner sibling.
LABEL_PLACES = ("m", "h", "m-", "m+", "h-", "h+", "ml", "mr", "mq", "z", "hl", "hr")
N_LABEL_PLACES = 12

STEP_TEMPLATES_TEXT = """
. | s0.w | s0.l | s0.x | s0.lp | s0.fx | s0.s | s1.l | s1.x | s1.lp | s1.fx | b0.w | b0.l | b0.x | b0.lp | b0.fx | b0.s
b1.l | b1.x | b1.lp | b1.fx | b2.x | b2.lp | s2.x | s2.lp
s0.x b0.x | s0.lp b0.x | s0.x b0.lp | s0.lp b0.lp | s0.fx b0.fx | s0.l b0.l | s0.p b0.lp | s0.lp b0.p | s0.fx b0.p
s0.p b0.fx | s0.k b0.v | s0.v b0.k | s0.g b0.g
s0.p b0.p dist | s0.x b0.x dist | s0.lp dist | b0.lp dist
s1.x s0.x | s1.lp s0.x | s1.x s0.lp | s1.lp s0.lp | s1.fx s0.fx | s1.p s0.p gap | s1.x s0.x gap | s1.lp gap
s1.k s0.v | s1.v s0.k | s1.g s0.g
s1.x b0.x | s1.lp b0.x | s1.x b0.lp | s1.lp b0.lp
b0.x b1.x | b0.lp b1.x | b0.x b1.lp | b0.lp b1.lp | s0.x b1.x | s0.lp b1.x | s0.x b1.lp
s1.x s0.x b0.x | s1.p s0.p b0.p | s1.lp s0.x b0.x | s1.x s0.lp b0.x | s1.x s0.x b0.lp | s1.p s0.p b0.lp
s1.lp s0.p b0.p
s1.lp s0.lp b0.p | s1.lp s0.p b0.lp | s1.p s0.lp b0.lp
s0.x b0.x b1.x | s0.lp b0.x b1.x | s0.x b0.lp b1.x | s0.x b0.x b1.lp | s2.x s1.x s0.x | b0.x b1.x b2.x
s0.p b0.p b1.p b2.p
s1.x s0.x b0.x b1.x | s1.p s0.p b0.p b1.p | s2.p s1.p s0.p b0.p | s2.x s0.x b0.x
s0-.x s0.x b0.x | s0.x s0+.x b0.x | s0.x b0-.x b0.x | s0.x s0+.x b0-.x b0.x | s1.x s1+.x s0.x | s1.p s1+.p s0-.p s0.p
s0-.l s0.p b0.p
s0.x s0l.x b0.x | s0.x s0r.x b0.x | s1.x s1r.x s0.x | s1.x s1l.x s0.x | s0.x b0l.x b0.x | s1.x s0.x s0r.x
s1.x s0.x s0l.x
s0.p s0l.l b0.p | s0.p s0r.l b0.p | s1.p s0.p s0l.l | s1.p s0.p s0r.l | s1.p s1r.l s0.p | s0.p b0.p b0l.l
s0.p s0l.p s0r.p b0.p | s0.p s0l.p s0m.p | s0.p s0r.p s0q.p | s1.p s1r.p s1q.p | b0.p b0l.p b0m.p
s0.x s0l.d b0.x | s0.x s0r.d b0.x | s0.lp s0r.d | s0.lp s0l.d | s1.x s1r.d s0.x | s1.lp s1r.d s0.p | s0.x b0.x b0l.d
s0.p b0.lp b0l.d | s1.x s1l.d s0.x
s0.x s0.ls | s0.x s0.rs | s0.lp s0.rs | s1.x s1.rs | s1.lp s1.rs | b0.x b0.ls | b0.lp b0.ls | s0.p s0.rs b0.p
s1.p s1.rs s0.p | s0.p b0.p b0.ls | s1.p s1.ls s0.p | s0.p s0.ls b0.p
s0.p s0.nl b0.p | s0.p s0.nr b0.p | s1.p s1.nr s0.p | s0.p b0.p b0.nl | s0.lp s0.nl s0.nr | s1.lp s1.nr | b0.lp b0.nl
"""

LABEL_TEMPLATES_TEXT = """
way | m.w way | m.l way | m.x way | m.lp way | m.fx way | m.s way | h.l way | h.x way | h.lp way | h.fx way
m-.x m.x way | m.x m+.x way | m-.x m.x m+.x way | m-.l m.p way | m.p m+.l way | h-.x h.x way | h.x h+.x way
h.p m.p way | h.x m.x way | h.lp m.p way | h.p m.lp way | h.l m.l way | h.fx m.fx way | h.p m.fx way | h.fx m.p way
h.v m.k way | h.lp m.k way | h.x m.x dist | h.p m.p dist | h.lp m.x dist
m.p ml.l h.p | m.p ml.d h.p | m.x mr.d h.x | m.lp ml.l | h.lp m.p ml.l | m.p m.ls h.p | m.p m.rs h.p | m.lp m.ls
m.p ml.x mr.x
h.p z.d m.p way | h.lp z.d m.p way | h.p h.ls m.p way | h.lp h.ls m.p way | h.x h.rs m.x way | h.p hl.d hr.d m.p
h.x m.x m-.l | h.x m.x m+.x | h.p mq.l m.p | m.lp m.nl m.nr
"""


def _parse(text: str, places: tuple[str, ...], extra: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """(T, 4) numbers of atoms, 0 where there are fewer, and a salt per template."""
    views = VIEWS + BUILT
    names = {"": 0, ".": 0, **{name: k for k, name in enumerate(extra, 1)}}
    first = 1 + len(extra)
    for s, place in enumerate(places):
        names |= {f"{place}.{view}": first + s * N_ATOMS + v for v, view in enumerate(views)}
    found = [part.split() for line in text.strip().splitlines() for part in line.split("|")]
    atoms = [[names[atom] for atom in template] + [0] * (4 - len(template)) for template in found]
    salts = [hashlib.blake2b(" ".join(t).encode(), digest_size=8).digest() for t in found]
    return np.array(atoms, np.int64), np.array([int.from_bytes(s, "little") for s in salts], np.uint64)


EXTRA = 2  # atoms before those of places: nothing excepted
STEP_TEMPLATES = _parse(STEP_TEMPLATES_TEXT, STEP_PLACES, ("dist", "gap"))
LABEL_TEMPLATES = _parse(LABEL_TEMPLATES_TEXT, LABEL_PLACES, ("way", "dist"))
N_STEP, N_LABEL = 1 + EXTRA + N_STEP_PLACES * N_ATOMS, 1 + EXTRA + N_LABEL_PLACES * N_ATOMS

NUMBER = np.uint64(0xD6E8FEB86659FD93)  # makes 64 bits of a small number


@kernel
def word_table(words, out):
    """out ← the views of every word; then a row for the root and one for no word at all."""
    n = words.shape[0]
    for t in range(n):
        row, v = words[t], out[t]
        v[0], v[1], v[2], v[3] = row[XPOS], row[UPOS], row[FORM], row[LEMMA]
        v[4], v[5], v[6] = mix(row[LEMMA], row[UPOS]), mix(row[FEATS], row[XPOS]), mix(row[SUFFIX], row[UPOS])
        v[7], v[8], v[9] = mix(row[UPOS], row[CASE]), mix(row[UPOS], row[VERB]), mix(row[UPOS], row[AGREEMENT])
    for k in range(N_VIEWS):
        out[n, k], out[n + 1, k] = mix(np.uint64(11), np.uint64(k)), mix(np.uint64(13), np.uint64(k))


@kernel
def _number(value):
    return np.uint64(value + 2) * NUMBER


@kernel
def _look(problem, start, n, state, place, word, atoms):
    """Atoms of a place ← those of a word; −1 is no word, n the root."""
    at = 1 + EXTRA + place * N_ATOMS
    outside = word < 0 or word > n
    if outside:
        row = problem.views.shape[0] - 1
    elif word == n:
        row = problem.views.shape[0] - 2
    else:
        row = start + word
    views = problem.views[row]
    for k in range(N_VIEWS):
        atoms[at + k] = views[k]
    at += N_VIEWS
    if outside:
        for k in range(5):
            atoms[at + k] = NUMBER
        return
    atoms[at] = _number(state[field_of(n, LABEL) + word])
    atoms[at + 1] = _number(min(state[field_of(n, N_LEFT) + word], 4))
    atoms[at + 2] = _number(min(state[field_of(n, N_RIGHT) + word], 4))
    atoms[at + 3] = _number(state[field_of(n, LEFT_LABELS) + word])
    atoms[at + 4] = _number(state[field_of(n, RIGHT_LABELS) + word])


@kernel
def step_atoms(problem, i, state, atoms):
    """atoms ← what the templates of steps look at in a state."""
    start = problem.offsets[i]
    n = problem.offsets[i + 1] - start
    depth, b0 = state[DEPTH], np.int64(state[BUFFER])
    s0 = np.int64(state[STACK + depth - 1]) if depth > 0 else np.int64(-1)
    s1 = np.int64(state[STACK + depth - 2]) if depth > 1 else np.int64(-1)
    s2 = np.int64(state[STACK + depth - 3]) if depth > 2 else np.int64(-1)
    left, right, inner = field_of(n, LEFT_CHILD), field_of(n, RIGHT_CHILD), field_of(n, NEXT_INNER)
    none = np.int64(-1)
    s0l = np.int64(state[left + s0]) if s0 >= 0 else none
    s0r = np.int64(state[right + s0]) if s0 >= 0 else none
    s1l = np.int64(state[left + s1]) if s1 >= 0 else none
    s1r = np.int64(state[right + s1]) if s1 >= 0 else none
    b0l = np.int64(state[left + b0])
    atoms[0] = np.uint64(0)
    atoms[1] = _number(distance_bin(b0 - s0) if s0 >= 0 else 0)
    atoms[2] = _number(distance_bin(s0 - s1) if s1 >= 0 else 0)
    _look(problem, start, n, state, 0, s0, atoms)
    _look(problem, start, n, state, 1, s1, atoms)
    _look(problem, start, n, state, 2, s2, atoms)
    _look(problem, start, n, state, 3, b0, atoms)
    _look(problem, start, n, state, 4, b0 + 1, atoms)
    _look(problem, start, n, state, 5, b0 + 2, atoms)
    _look(problem, start, n, state, 6, s0 - 1 if s0 >= 0 else none, atoms)
    _look(problem, start, n, state, 7, s0 + 1 if s0 >= 0 else none, atoms)
    _look(problem, start, n, state, 8, b0 - 1, atoms)
    _look(problem, start, n, state, 9, s1 + 1 if s1 >= 0 else none, atoms)
    _look(problem, start, n, state, 10, s0l, atoms)
    _look(problem, start, n, state, 11, np.int64(state[inner + s0l]) if s0l >= 0 else none, atoms)
    _look(problem, start, n, state, 12, s0r, atoms)
    _look(problem, start, n, state, 13, np.int64(state[inner + s0r]) if s0r >= 0 else none, atoms)
    _look(problem, start, n, state, 14, s1l, atoms)
    _look(problem, start, n, state, 15, s1r, atoms)
    _look(problem, start, n, state, 16, np.int64(state[inner + s1r]) if s1r >= 0 else none, atoms)
    _look(problem, start, n, state, 17, b0l, atoms)
    _look(problem, start, n, state, 18, np.int64(state[inner + b0l]) if b0l >= 0 else none, atoms)


@kernel
def label_atoms(problem, i, state, atoms):
    """atoms ← what the templates of relations look at: the arc that was built last."""
    start = problem.offsets[i]
    n = problem.offsets[i + 1] - start
    m = np.int64(state[PENDING])
    h = np.int64(state[field_of(n, HEAD) + m])
    left, right, inner = field_of(n, LEFT_CHILD), field_of(n, RIGHT_CHILD), field_of(n, NEXT_INNER)
    ml, mr = np.int64(state[left + m]), np.int64(state[right + m])
    none = np.int64(-1)
    way = 1 if h < m else 0
    atoms[0] = np.uint64(0)
    atoms[1] = _number(way)
    atoms[2] = _number(2 * distance_bin(m - h if way else h - m) + way)
    _look(problem, start, n, state, 0, m, atoms)
    _look(problem, start, n, state, 1, h, atoms)
    _look(problem, start, n, state, 2, m - 1, atoms)
    _look(problem, start, n, state, 3, m + 1, atoms)
    _look(problem, start, n, state, 4, h - 1, atoms)
    _look(problem, start, n, state, 5, h + 1, atoms)
    _look(problem, start, n, state, 6, ml, atoms)
    _look(problem, start, n, state, 7, mr, atoms)
    _look(problem, start, n, state, 8, np.int64(state[inner + mr]) if mr >= 0 else none, atoms)
    _look(problem, start, n, state, 9, np.int64(state[inner + m]), atoms)
    _look(problem, start, n, state, 10, np.int64(state[left + h]), atoms)
    _look(problem, start, n, state, 11, np.int64(state[right + h]), atoms)


@kernel
def rows_of(templates, salts, atoms, shift, rows):
    """rows[t] ← the row of weights of template t."""
    for t in range(np.uintp(templates.shape[0])):
        a, b = atoms[templates[t, 0]], atoms[templates[t, 1]]
        c, d = atoms[templates[t, 2]], atoms[templates[t, 3]]
        b = (b << np.uint64(17)) | (b >> np.uint64(47))
        c = (c << np.uint64(33)) | (c >> np.uint64(31))
        d = (d << np.uint64(49)) | (d >> np.uint64(15))
        rows[t] = np.uintp(((a + b + c + d + salts[t]) * MULTIPLIER) >> shift)
