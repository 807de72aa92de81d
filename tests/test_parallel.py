"""Parallel text and links: what is read is what was written, and every fault is found with its place."""

from __future__ import annotations

import gzip
import io
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partwise.data import (
    Bitext,
    GoldLinks,
    iter_bitext,
    load_sample_alignments,
    read_bitext,
    read_naacl,
    read_naacl_links,
    read_naacl_sentences,
    read_pharaoh,
    write_bitext,
    write_naacl_links,
    write_pharaoh,
)
from partwise.exceptions import FormatError, InputError, ParameterError

PAIRS = [(["the", "cat"], ["le", "chat"]), (["yes"], ["oui", "!"]), (["the", "cat"], ["ce", "chat", "là"])]


def text(*lines: str) -> io.StringIO:
    return io.StringIO("".join(line + "\n" for line in lines))


def test_joined_lines_and_two_files_read_alike(tmp_path):
    joined, source, target = tmp_path / "both.txt", tmp_path / "a.en.xz", tmp_path / "a.fr.gz"
    write_bitext(joined, PAIRS)
    source.write_bytes(lzma.compress("".join(" ".join(e) + "\n" for e, _ in PAIRS).encode()))
    target.write_bytes(gzip.compress("\n".join(" ".join(f) for _, f in PAIRS).encode()))
    assert list(read_bitext(joined)) == list(iter_bitext(joined)) == PAIRS
    assert list(read_bitext(source, target)) == list(iter_bitext(source, target)) == PAIRS
    bitext = read_bitext(source, target)
    assert bitext.source.codes.dtype == np.int32
    assert bitext.target.vocab == ["le", "chat", "oui", "!", "ce", "là"]


words = st.lists(st.text(st.characters(exclude_categories=("Cs", "Zs", "Cc")), min_size=1, max_size=5), min_size=1)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=5))
def test_what_is_written_reads_back(pairs):
    out = io.StringIO()
    try:
        write_bitext(out, pairs)
    except InputError:
        assert any("|||" in sentence for pair in pairs for sentence in pair)
        return
    assert list(read_bitext(io.BytesIO(out.getvalue().encode()))) == pairs
    assert list(Bitext.from_pairs(pairs)) == pairs


def test_a_no_break_space_is_part_of_its_word():
    assert read_bitext(text("10\u00a0% ||| 10 %"))[0] == (["10\u00a0%"], ["10", "%"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a ||| b", "c d"], "<text>:2: expected one '|||' on the line, got 0"),
        (["a ||| b ||| c"], "<text>:1: expected one '|||' on the line, got 2"),
        (["a ||| b", "", "c ||| d"], "<text>:2: expected one '|||' on the line, got 0"),
        (["a ||| b", "||| d"], "<text>:2: the source sentence is empty"),
        (["a |||"], "<text>:1: the target sentence is empty"),
    ],
)
def test_faults_of_joined_lines(lines, message):
    for read in (read_bitext, lambda source: list(iter_bitext(source))):
        with pytest.raises(FormatError) as error:
            read(text(*lines))
        assert str(error.value) == message


def test_faults_of_two_files(tmp_path):
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("a\nb\nc\n")
    target.write_text("x\ny\n")
    with pytest.raises(FormatError, match=r"t:3: no sentence for line 3 of .*s; the files have 3 and 2 lines"):
        read_bitext(source, target)
    with pytest.raises(FormatError, match=r"t:3: no sentence for line 3 of .*s"):
        list(iter_bitext(source, target))
    target.write_text("x\n \nz\n")
    for read in (read_bitext, lambda *files: list(iter_bitext(*files))):
        with pytest.raises(FormatError, match="t:2: the target sentence is empty"):
            read(source, target)
    target.write_bytes(b"x\nok \xe9t\xe9\nz\n")
    for read in (read_bitext, lambda *files: list(iter_bitext(*files))):
        with pytest.raises(FormatError, match=r"t:2:4: not utf-8: byte 0xe9"):
            read(source, target)
    source.write_text("")
    target.write_text("")
    with pytest.raises(FormatError, match="s: no sentence pairs"):
        read_bitext(source, target)
    with pytest.raises(FormatError, match="<text>: no sentence pairs"):
        read_bitext(text())
    assert list(iter_bitext(source, target)) == list(iter_bitext(text())) == []


def test_bitext_slices_joins_and_swaps():
    bitext = Bitext.from_pairs(PAIRS)
    assert list(bitext[1:]) == PAIRS[1:] and bitext[-1] == PAIRS[-1]
    assert list(bitext.subset([2, 0])) == [PAIRS[2], PAIRS[0]]
    assert list(bitext.subset(np.array([True, False, True]))) == [PAIRS[0], PAIRS[2]]
    both = bitext[:1] + Bitext.from_pairs([(["a", "cat"], ["un", "chat"])])
    assert list(both) == [PAIRS[0], (["a", "cat"], ["un", "chat"])]
    assert bitext.swapped()[1] == (["oui", "!"], ["yes"])
    assert len(Bitext.from_pairs([])) == 0
    with pytest.raises(IndexError, match="pair 3 of 3"):
        bitext[3]


def test_bitext_refuses_what_is_not_pairs_of_words():
    with pytest.raises(InputError, match="pair 1: the target sentence is empty"):
        Bitext.from_pairs([(["a"], ["b"]), (["a"], [])])
    with pytest.raises(InputError, match=r"pair 0: expected lists of words, got 'a b'"):
        Bitext.from_pairs([("a b", ["c"])])
    with pytest.raises(InputError, match=r"pair 0: expected \(source words, target words\)"):
        Bitext.from_pairs([(["a"], ["b"], ["c"])])
    bitext = Bitext.from_pairs(PAIRS)
    with pytest.raises(InputError, match="the source has 3 sentences, the target 1"):
        Bitext(bitext.source, bitext[:1].target)


def test_write_refuses_words_that_would_not_read_back():
    for pair in ((["a b"], ["c"]), ([], ["c"]), (["a"], ["|||"])):
        with pytest.raises(InputError, match="pair 0: its words would be read back differently"):
            write_bitext(io.StringIO(), [pair])


def test_pharaoh_round_trip():
    gold = [GoldLinks.of([(0, 1), (1, 0)], [(1, 1)]), GoldLinks.of([]), GoldLinks.of([(0, 0)])]
    out = io.StringIO()
    write_pharaoh(out, gold)
    assert out.getvalue() == "0-1 1-0 1?1\n\n0-0\n"
    assert read_pharaoh(io.StringIO(out.getvalue()), PAIRS) == gold
    assert read_pharaoh(text("1p1"))[0].possible == {(1, 1)}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0-0", "0-2", ""], "<text>:2: link 0-2 is out of range: the target sentence has 2 words"),
        (["2?0", "", ""], "<text>:1: link 2?0 is out of range: the source sentence has 2 words"),
        (["0-0", "0:0"], "<text>:2: expected links such as 0-1 or 0?1, got '0:0'"),
        (["0-0"], "<text>:2: expected 3 lines, one per pair, got 1"),
        (["", "", "", "0-0"], "<text>:4: more lines of links than pairs: there are 3 pairs"),
    ],
)
def test_faults_of_pharaoh_links(lines, message):
    with pytest.raises(FormatError) as error:
        read_pharaoh(text(*lines), PAIRS)
    assert str(error.value) == message


def test_write_pharaoh_counts_from_zero():
    with pytest.raises(InputError, match=r"pair 1: positions count from 0, got the link \(-1, 0\)"):
        write_pharaoh(io.StringIO(), [[(0, 0)], [(-1, 0)]])


def test_naacl_files(tmp_path):
    for name, side in (("e", 0), ("f", 1)):
        lines = [f"<s snum={7 + 2 * n:04d}> {' '.join(pair[side])}  </s>\n" for n, pair in enumerate(PAIRS)]
        (tmp_path / name).write_text("".join(lines))
    (tmp_path / "wa").write_text("0007 1 1 S\n0007 2 2 S\n0011 1 0 S\n0011 2 3 P 0.5\n0011 2 2\n")
    data = read_naacl(tmp_path / "e", tmp_path / "f", tmp_path / "wa")
    assert list(data.bitext) == PAIRS and data.numbers == [7, 9, 11]
    assert data.gold == [
        GoldLinks.of([(0, 0), (1, 1)]),
        GoldLinks.of([]),
        GoldLinks.of([(1, 1)], [(1, 2)]),
    ]
    out = io.StringIO()
    write_naacl_links(out, data.gold, data.numbers)
    assert out.getvalue() == "0007 1 1 S\n0007 2 2 S\n0011 2 2 S\n0011 2 3 P\n"
    with pytest.raises(InputError, match="3 pairs but 1 numbers"):
        write_naacl_links(out, data.gold, [1])
    (tmp_path / "f").write_text("<s snum=7> le chat </s>\n")
    with pytest.raises(FormatError, match="f: no sentence 9; the files have 3 and 1 sentences"):
        read_naacl(tmp_path / "e", tmp_path / "f")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0001 1 3 S", "<text>:2: link 1 3 is out of range: the target sentence 1 has 2 words"),
        ("0001 4 1 S", "<text>:2: link 4 1 is out of range: the source sentence 1 has 3 words"),
        ("0002 1 1 S", "<text>:2: there is no sentence 2"),
        ("0001 1 S", "<text>:2: expected 'sentence source target S|P', got '0001 1 S'"),
        ("0001 1 1 X", "<text>:2: expected 'sentence source target S|P', got '0001 1 1 X'"),
        ("0001 1 1 S 1 2", "<text>:2: expected 'sentence source target S|P', got '0001 1 1 S 1 2'"),
    ],
)
def test_faults_of_naacl_links(line, message):
    with pytest.raises(FormatError) as error:
        read_naacl_links(text("0001 1 1 S", line), {1: (3, 2)})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<s> a </s>", "<text>:2: expected <s snum=NUMBER> words </s>, got '<s> a </s>'"),
        ("<s snum=2> </s>", "<text>:2: sentence 2 is empty"),
        ("<s snum=0001> b </s>", "<text>:2: sentence 1 appears twice"),
    ],
)
def test_faults_of_naacl_sentences(line, message):
    with pytest.raises(FormatError) as error:
        read_naacl_sentences(text("<s snum=1> a </s>", line))
    assert str(error.value) == message


def test_sample_is_whole():
    every, train, test = (load_sample_alignments(split) for split in (None, "train", "test"))
    assert len(every.bitext) == len(every.gold) >= 120
    assert sorted(train.numbers + test.numbers) == every.numbers
    for (source, target), gold in zip(every.bitext, every.gold, strict=True):
        # Every word has a partner, and the last word of each side (a full stop, a question mark) is the other's.
        assert {i for i, _ in gold.possible} == set(range(len(source)))
        assert {j for _, j in gold.possible} == set(range(len(target)))
        assert (len(source) - 1, len(target) - 1) in gold.sure and source[-1] == target[-1]
    with pytest.raises(ParameterError, match="must be one of 'test', 'train'"):
        load_sample_alignments("dev")
