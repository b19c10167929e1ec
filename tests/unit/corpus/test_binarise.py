import gzip
import json

import pytest

from mtkit.corpus import binarise as module
from mtkit.corpus.binarise import binarise
from mtkit.corpus.config import CleaningConfig
from mtkit.corpus.store import Store
from mtkit.errors import DataError, MissingInputError
from mtkit.text.lines import TextSubset


def test_dropped_pairs_are_counted_and_the_rest_keep_their_line_numbers(tmp_path, tokenizers, write):
    src = write(tmp_path / "src", ["a b", "", "x", "a " * 9, "a▁b \u2028 c", "a a a a"])
    tgt = write(tmp_path / "tgt", ["c", "d", "\u3000 \t", "e", "f", "g"])
    cleaning = CleaningConfig(max_length=8, max_ratio=3, min_length_for_ratio=2)
    report = binarise(src, tgt, tmp_path / "store", tokenizers, cleaning)
    assert report.dropped == {"empty": 2, "too_long": 1, "ratio": 1, "filters": 0}
    assert report.examples == {"empty": [2, 3], "too_long": [4], "ratio": [6], "filters": []}
    assert report.replaced_chars == 1
    store = Store(tmp_path / "store")
    assert [store.line(sample) for sample in range(len(store))] == [1, 5]
    assert store.text("src", 1) == "a_b \u2028 c"
    manifest = json.loads((tmp_path / "store/manifest.json").read_text())
    assert manifest["report"] == report.as_json()
    assert manifest["cleaning"] == {"max_length": 8, "max_ratio": 3, "min_length_for_ratio": 2}


def test_unknown_tokens_of_kept_pairs_are_counted(tmp_path, tokenizers, write, monkeypatch):
    monkeypatch.setattr(type(tokenizers.src), "token", lambda self, word: self.vocab.unk if word == "?" else 9)
    src = write(tmp_path / "src", ["a ? b", "? ?", "c"])
    tgt = write(tmp_path / "tgt", ["a b", "", "? c"])
    report = binarise(src, tgt, tmp_path / "store", tokenizers, CleaningConfig())
    assert (report.tokens, report.unknown_tokens) == (8, 2)
    assert report.summary()[-1] == "2 of 8 tokens unknown"


@pytest.mark.parametrize("bounds", [(1, 1 << 20), (7, 1 << 20), (1000, 30)])
def test_block_size_changes_nothing(make_store, tmp_path, tokenizers, monkeypatch, bounds):
    whole = make_store(40)
    monkeypatch.setattr(module, "_BLOCK_PAIRS", bounds[0])
    monkeypatch.setattr(module, "_BLOCK_CHARACTERS", bounds[1])
    binarise(tmp_path / "0.src", tmp_path / "0.tgt", tmp_path / "blocks", tokenizers, None)
    assert Store(tmp_path / "blocks").manifest == whole.manifest


def test_unequal_line_counts_are_rejected_with_both_counts(tmp_path, tokenizers, write):
    src, tgt = write(tmp_path / "train.en", ["a"] * 3), write(tmp_path / "train.de", ["a"] * 5)
    with pytest.raises(DataError) as caught:
        binarise(src, tgt, tmp_path / "store", tokenizers, CleaningConfig())
    assert str(caught.value) == (
        f"{tgt}:4: line has no partner: {src} has 3 lines and this file 5; both files must have the same number of "
        "lines"
    )
    with pytest.raises(DataError, match=r"train\.de:4: line has no partner"):
        binarise(tgt, src, tmp_path / "store", tokenizers, CleaningConfig())
    assert not (tmp_path / "store").exists()


def test_empty_corpus_is_rejected(tmp_path, tokenizers, write):
    src, tgt = write(tmp_path / "src", []), write(tmp_path / "tgt", [])
    with pytest.raises(DataError, match=r"src and .*tgt: both are empty; a corpus needs at least one sentence pair"):
        binarise(src, tgt, tmp_path / "store", tokenizers, CleaningConfig())
    with pytest.raises(DataError, match=r"src: the file is empty; a corpus needs at least one sentence"):
        binarise(src, src, tmp_path / "store", tokenizers, CleaningConfig())


def test_corpus_without_clean_pairs_is_rejected_with_the_reasons(tmp_path, tokenizers, write):
    src, tgt = write(tmp_path / "src", ["", "a"]), write(tmp_path / "tgt", ["b", " "])
    with pytest.raises(
        DataError, match="no pairs are left after cleaning: 0 of 2 pairs kept; 2 dropped because one side"
    ):
        binarise(src, tgt, tmp_path / "store", tokenizers, CleaningConfig())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["src", "tgt"]


def test_error_in_the_text_preserves_the_old_store(make_store, tmp_path, tokenizers):
    store = make_store(5)
    (tmp_path / "bad").write_bytes(b"a\nb\nc\nd\n\xff\n")
    with pytest.raises(DataError, match="bad:5: byte 1"):
        binarise(tmp_path / "bad", tmp_path / "0.tgt", store.folder, tokenizers, None)
    Store(store.folder).verify()


def test_missing_file_is_named(tmp_path, tokenizers, write):
    with pytest.raises(MissingInputError, match="missing"):
        binarise(tmp_path / "missing", write(tmp_path / "a", ["a"]), tmp_path / "store", tokenizers, None)


def test_compressed_text_gives_the_same_columns(make_store, tmp_path, tokenizers):
    plain = make_store(9)
    packed = {side: tmp_path / f"{side}.gz" for side in ("src", "tgt")}
    for side, path in packed.items():
        path.write_bytes(gzip.compress((tmp_path / f"0.{side}").read_bytes()))
    binarise(packed["src"], packed["tgt"], tmp_path / "store", tokenizers, None)
    assert Store(tmp_path / "store").manifest.columns == plain.manifest.columns


def test_a_limit_keeps_the_line_numbers_of_the_file(tmp_path, tokenizers, write):
    src, tgt = write(tmp_path / "src", ["a", "b", "", "d", "e", "f"]), write(tmp_path / "tgt", list("uvwxyz"))
    report = binarise(
        TextSubset(src, 4), TextSubset(tgt, 4), tmp_path / "store", tokenizers, CleaningConfig(max_length=8)
    )
    store = Store(tmp_path / "store")
    assert [store.line(sample) for sample in range(len(store))] == [2, 5, 6]
    assert [store.text("tgt", sample) for sample in range(len(store))] == ["v", "y", "z"]
    assert (report.lines, report.examples["empty"]) == (4, [3])
    assert store.manifest.limit == 4
