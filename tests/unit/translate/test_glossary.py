"""Glossary files: forms, contradictions, hostile input, and terms of a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import DataError
from mtkit.translate.glossary import Glossary, honoured_form, read_glossary

TBX = (
    '<?xml version="1.0"?><martif type="TBX" xmlns="x"><text><body><termEntry>'
    '<langSet xml:lang="en"><tig><term>dog</term></tig></langSet>'
    '<langSet xml:lang="de-AT"><tig><term>Hund</term></tig><tig><term>Köter</term></tig></langSet>'
    "</termEntry></body></text></martif>"
)
FILES = {
    "comma.csv": 'source,target\ndog,Hund|Köter\n"big, red house",Haus\nAcme,\n',
    "semicolon.csv": "en;de\ndog;Hund;Köter\n",
    "tab.tsv": "dog\tHund|Köter\n",
    "terms.tbx": TBX,
}


@pytest.mark.parametrize("name", FILES)
def test_all_kinds_of_files_give_the_same_term(name, tmp_path):
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    glossary = read_glossary([tmp_path / name], "en", "de")
    assert glossary.terms["dog"] == ("Hund", "Köter")
    if name == "comma.csv":
        assert glossary.terms == {"dog": ("Hund", "Köter"), "big, red house": ("Haus",), "acme": ("Acme",)}


@pytest.mark.parametrize(
    ("code", "wanted"),
    [("pt-BR", "pt-BR"), ("pt_br", "pt-BR"), ("por", "pt"), ("pt-BR", "pt"), ("zh-Hans-CN", "zh-Hans")],
)
def test_terms_of_a_language_with_a_region_are_found(code, wanted, tmp_path):
    (tmp_path / "a.tbx").write_text(TBX.replace("de-AT", code), encoding="utf-16")
    assert read_glossary([tmp_path / "a.tbx"], "en", wanted).terms["dog"] == ("Hund", "Köter")
    with pytest.raises(DataError, match="no terms from en to pt-PT"):
        read_glossary([tmp_path / "a.tbx"], "en", "pt-PT")


def test_words_to_keep_are_their_own_translation(tmp_path):
    (tmp_path / "keep.txt").write_text("Acme\n\nBig Blue\n", encoding="utf-8")
    glossary = read_glossary([tmp_path / "keep.txt"], "en", "de")
    assert [t.forms for t in glossary.find("Acme and big blue, acmes")] == [("Acme",), ("Big Blue",)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "dog,Hund\ncat,Katze\nDog,Köter\n", "a.csv:3: 'Dog' is 'Köter' here and 'Hund' in .*a.csv:1; omit"),
        ("a.csv", ",Hund\n", "a.csv:1: a term has 1 to 200 characters; shorten or omit it"),
        ("a.tsv", "", "a.tsv: no terms from en to de; give another file"),
        ("a.xlsx", "x", "a.xlsx: a glossary is .csv, .tsv or .tbx, a list of words to keep .txt; rename it"),
        ("a.csv", "a,b\n" + '"' + "x" * 200_000, "a.csv:2: not CSV: field larger than field limit"),
        ("a.csv", 'dog,Köter\nball,"Kugel\nman,Kerl\n', "a.csv:2: a quote that is never closed; close it in its line"),
        ("a.csv", 'ball,"Kugel\nman,Kerl"\nwoman,Weib\n', "a.csv:1: a quote that is never closed"),
        ("a.csv", 'dog,Köter\nball,"Kugel\nman,"Kerl"\n', "a.csv:2: a quote that is never closed"),
        ("a.csv", 'dog,Köter\nball,"Kugel', "a.csv:2: a quote that is never closed"),
        ("a.csv", 'ball,"Ku\rgel"\n', "a.csv:1: a quote that is never closed"),
        ("a.csv", 'dog,Köter\nball,"Ku"gel\n', "a.csv:2: not CSV: .*; quote cells with commas and quotes"),
        ("a.tbx", "<martif>\n<a", "a.tbx:2: not well-formed XML: unclosed token; export it as TBX again"),
        ("a.tbx", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "a.tbx:1: declares the entity b; .* are refused"),
        ("a.tbx", '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "a.tbx: no terms from en to de"),
        ("a.tbx", TBX.replace("de-AT", "fr"), "a.tbx: no terms from en to de"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(name, content, message, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message) as error:
        read_glossary([tmp_path / name], "en", "de")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "terms"),
    [
        ("a.csv", '2" screw,Schraube\r\n"3"" nut",Mutter\r\n', {'2" screw': ("Schraube",), '3" nut': ("Mutter",)}),
        ("a.csv", 'the "big" dog;"Hund"\n\nlast;"Letzte"', {'the "big" dog': ("Hund",), "last": ("Letzte",)}),
        ("a.tsv", 'ball\t"Kugel\nman\tKerl"\n', {"ball": ('"Kugel',), "man": ('Kerl"',)}),
    ],
)
def test_quotes_inside_cells_are_read(name, content, terms, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    assert read_glossary([tmp_path / name], "en", "de").terms == terms


def test_files_may_not_contradict_each_other(tmp_path):
    for name, form in (("a.csv", "Hund"), ("b.csv", "Köter")):
        (tmp_path / name).write_text(f"dog,{form}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"b.csv:1: 'dog' is 'Köter' here and 'Hund' in .*a.csv:1"):
        read_glossary([tmp_path / "a.csv", tmp_path / "b.csv"], "en", "de")


WORDS = st.text("abdog ß漢.-", min_size=1, max_size=8)


@given(st.lists(st.tuples(WORDS, WORDS), max_size=6, unique_by=lambda pair: pair[0].casefold().strip()), st.text())
def test_terms_of_a_line_are_whole_words_in_order(terms, line):
    glossary = Glossary()
    for source, form in terms:
        if source.split() and " ".join(source.split()).casefold() not in glossary.terms:
            glossary.add(source, [form], "x:1")
    ends = 0
    for term in glossary.find(line):
        assert ends <= term.start < term.end <= len(line)
        assert glossary.terms[line[term.start : term.end].casefold()] == term.forms
        ends = term.end


def test_the_longest_term_wins_and_forms_are_whole_words():
    glossary = Glossary()
    glossary.add("dog", ["Hund"], "x:1")
    glossary.add("dog house", ["Hütte", "hundehütte"], "x:2")
    (first, second) = glossary.find("The dog house of a Dog; dogs")
    assert (first.forms, second.forms) == (("Hütte", "hundehütte"), ("Hund",))
    assert honoured_form(first, "Eine Hundehütte") == "hundehütte"
    assert honoured_form(second, "Die Hunde, der Hundehals") is None
    assert honoured_form(second, "Hunde und Hund.") == "Hund"
    glossary.add("東京", ["Tokyo"], "x:3")
    assert [t.forms[0] for t in glossary.find("私は東京に行く")] == ["Tokyo"]
