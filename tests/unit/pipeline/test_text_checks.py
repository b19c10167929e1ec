"""Mistakes in the files of a recipe: swapped sides, other languages, the same text twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.corpus.config import CorpusConfig, ParallelFiles, TrainBacktranslated, TrainParallelFiles
from mtkit.errors import DataError
from mtkit.pipeline.check_text import check_recipe
from mtkit.pipeline.languages import language_mistake, likely_mistakes

DATA = Path(__file__).parents[3] / "data"


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    pytest.importorskip("py3langid")
    for name in ("train", "valid"):
        for side in ("en", "de"):
            lines = (DATA / f"{name}.{side}").read_text().split("\n")[:300]
            (tmp_path / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    files = {"src": tmp_path / "valid.en", "tgt": tmp_path / "valid.de"}
    train = TrainParallelFiles(src=tmp_path / "train.en", tgt=tmp_path / "train.de")
    return CorpusConfig(
        src_lang="en", tgt_lang="de", train=[train], valid=ParallelFiles(**files), test={"t": ParallelFiles(**files)}
    )


@pytest.mark.parametrize("codes", [("en", "de"), ("eng", "de_AT"), ("xx", "de"), ("toy", "toy")])
def test_right_or_unknown_languages(corpus, codes) -> None:
    assert likely_mistakes(replace(corpus, src_lang=codes[0], tgt_lang=codes[1])) == []


def test_swapped_sides_are_refused(corpus) -> None:
    files = corpus.train[0]
    swapped = replace(files, src=files.tgt, tgt=files.src)
    message = r"^corpus\.train\.0: \S+train\.de looks like de and \S+train\.en like en, but .* exchange src and tgt"
    with pytest.raises(DataError, match=message):
        likely_mistakes(replace(corpus, train=[swapped]))
    with pytest.raises(DataError, match=r"^corpus\.train\.0: .* exchange src and tgt there, or the languages$"):
        likely_mistakes(replace(corpus, src_lang="de", tgt_lang="en"))
    test = corpus.test["t"]
    with pytest.raises(DataError, match=r"^corpus\.test\.t: "):
        likely_mistakes(replace(corpus, test={"t": replace(test, src=test.tgt, tgt=test.src)}))


def test_files_with_a_tag_may_be_in_any_direction(corpus) -> None:
    files = corpus.train[0]
    both = [replace(files, tag="de"), replace(files, src=files.tgt, tgt=files.src, tag="en")]
    tagged = replace(corpus.valid, tag="de")
    assert likely_mistakes(replace(corpus, train=both, valid=tagged, test={})) == []


def test_files_have_their_own_languages(corpus) -> None:
    files = corpus.train[0]
    back = replace(files, src=files.tgt, tgt=files.src, src_lang="de", tgt_lang="en")
    assert likely_mistakes(replace(corpus, train=[files, back], test={})) == []
    with pytest.raises(DataError, match=r"^corpus\.train\.1: .* but its languages are de and en "):
        likely_mistakes(replace(corpus, train=[files, replace(files, src_lang="de", tgt_lang="en")]))
    (sentence, *_) = likely_mistakes(replace(corpus, train=[replace(back, src_lang="nl")]))
    assert sentence.endswith("train.de looks like de, not nl; set corpus.train.0.src_lang, or check the file")


def test_another_language_is_reported(corpus) -> None:
    sentences = likely_mistakes(replace(corpus, src_lang="fr"))
    assert [each.partition(":")[0] for each in sentences] == ["corpus.train.0", "corpus.valid", "corpus.test.t"]
    assert sentences[0].endswith("train.en looks like en, not fr; set corpus.src_lang, or check the file")
    (sentence, *_) = likely_mistakes(replace(corpus, tgt_lang="fr"))
    assert sentence.endswith("train.de looks like de, not fr; set corpus.tgt_lang, or check the file")
    valid = replace(corpus.valid, tgt_lang="fr")
    for sets, place in ((valid, "corpus.valid"), ([corpus.valid, valid], "corpus.valid.1")):
        (sentence,) = likely_mistakes(replace(corpus, valid=sets, test={}))
        assert sentence.startswith(f"{place}: ")
        assert sentence.endswith(f"looks like de, not fr; set {place}.tgt_lang, or check the file")
    test = replace(corpus.test["t"], tgt_lang="de")
    assert likely_mistakes(replace(corpus, tgt_lang="nl", test={"t": test}))[2:] == []


def test_one_text_twice_is_reported(corpus, tmp_path) -> None:
    copy = tmp_path / "copy.de"
    copy.write_bytes((tmp_path / "train.en").read_bytes())
    for tgt in (copy, tmp_path / "train.en"):
        (sentence,) = likely_mistakes(replace(corpus, train=[replace(corpus.train[0], tgt=tgt)]))
        assert sentence.startswith(f"corpus.train.0: {tmp_path / 'train.en'} and {tgt} are the same text; a model")


@pytest.mark.parametrize("count", [300, 20])
def test_held_out_text_that_is_training_text_is_reported(corpus, tmp_path, count) -> None:
    for side in ("en", "de"):
        lines = (tmp_path / f"train.{side}").read_text().split("\n")[:count]
        (tmp_path / f"copy.{side}").write_text("".join(f"{line}\n" for line in lines))
    copy = ParallelFiles(src=tmp_path / "copy.en", tgt=tmp_path / "copy.de")
    (sentence,) = likely_mistakes(replace(corpus, valid=copy))
    assert sentence.startswith(f"corpus.valid: {copy.src} and {copy.tgt} are training text ({tmp_path / 'train.en'});")
    half = replace(copy, tgt=tmp_path / "valid.de")  # other translations of the same sources are no copy
    assert likely_mistakes(replace(corpus, valid=half)) == []


@pytest.mark.parametrize(("count", "num_sentences"), [(99, 0), (100, 1)])
def test_short_files_are_not_classified(corpus, tmp_path, count, num_sentences) -> None:
    for side in ("en", "de"):
        lines = (tmp_path / f"train.{side}").read_text().split("\n")[:count]
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    assert len(likely_mistakes(replace(corpus, src_lang="fr", valid=None, test={}))) == num_sentences


def test_text_in_another_language(corpus, tmp_path) -> None:
    german = tmp_path / "train.de"
    assert language_mistake(german, "de") is language_mistake(german, "toy") is None
    assert language_mistake(german, "en") == f"the text of {german} looks like de, not en"
    german.write_text("Das ist ein Haus.\n" * 99)  # too few lines to know
    assert language_mistake(german, "en") is None


def test_back_translations_are_checked_once_they_are_made(corpus, tmp_path) -> None:
    made = TrainBacktranslated(mono=tmp_path / "mono.de", backtranslate=tmp_path / "model")
    assert len(list(check_recipe(replace(corpus, train=[made])))) == 2
    made.folder.mkdir()
    for path, side in ((made.src, "en"), (made.tgt, "de")):
        path.write_bytes((tmp_path / f"valid.{side}").read_bytes())
    reports = list(check_recipe(replace(corpus, train=[made])))
    assert len(reports) == 3
    assert "valid or test" in "\n".join(reports[0].lines())
