import gzip
import json

import pytest

from mtkit.corpus import binarise as module
from mtkit.corpus.binarise import binarise
from mtkit.corpus.cleaning import CleaningConfig
from mtkit.corpus.store import Store
from mtkit.errors import DataError, MissingInputError


def test_what_is_left_out_is_counted_and_the_rest_keeps_its_lines(tmp_path, tokenizers, write):
    src = write(tmp_path / "src", ["a b", "", "x", "a " * 9, "a▁b \u2028 c", "a a a a"])
    tgt = write(tmp_path / "tgt", ["c", "d", "\u3000 \t", "e", "f", "g"])
    cleaning = CleaningConfig(max_length=8, max_ratio=3, ratio_from=2)
    report = binarise(src, tgt, tmp_path / "store", tokenizers, cleaning)
    assert report.dropped == {"empty": 2, "too_long": 1, "ratio": 1}
    assert report.examples == {"empty": [2, 3], "too_long": [4], "ratio": [6]}
    assert report.replaced == 1
    store = Store(tmp_path / "store")
    assert [store.line(sample) for sample in range(len(store))] == [1, 5]
    assert store.text("src", 1) == "a_b \u2028 c"
    manifest = json.loads((tmp_path / "store/manifest.json").read_text())
    assert manifest["report"] == report.as_json()
    assert manifest["cleaning"] == {"max_length": 8, "max_ratio": 3, "ratio_from": 2}


@pytest.mark.parametrize("bounds", [(1, 1 << 20), (7, 1 << 20), (1000, 30)])
def test_the_size_of_the_blocks_changes_nothing(make_store, tmp_path, tokenizers, monkeypatch, bounds):
    whole = make_store(40)
    monkeypatch.setattr(module, "_BLOCK_PAIRS", bounds[0])
    monkeypatch.setattr(module, "_BLOCK_CHARACTERS", bounds[1])
    binarise(tmp_path / "0.src", tmp_path / "0.tgt", tmp_path / "parts", tokenizers, None)
    assert Store(tmp_path / "parts").manifest == whole.manifest


def test_lines_without_partners_are_refused_with_both_counts(tmp_path, tokenizers, write):
    src, tgt = write(tmp_path / "train.en", ["a"] * 3), write(tmp_path / "train.de", ["a"] * 5)
    with pytest.raises(DataError) as caught:
        binarise(src, tgt, tmp_path / "store", tokenizers, CleaningConfig())
    assert str(caught.value) == (
        f"{tgt}:4: line has no partner, {src} ends at 3 and this file at 5; the two files must have equally many lines"
    )
    with pytest.raises(DataError, match=r"train\.de:4: line has no partner"):
        binarise(tgt, src, tmp_path / "store", tokenizers, CleaningConfig())
    assert not (tmp_path / "store").exists()


def test_an_empty_corpus_is_refused(tmp_path, tokenizers, write):
    src, tgt = write(tmp_path / "src", []), write(tmp_path / "tgt", [])
    with pytest.raises(DataError, match=r"src and .*tgt: both are empty; a corpus needs at least one sentence pair"):
        binarise(src, tgt, tmp_path / "store", tokenizers, CleaningConfig())
    with pytest.raises(DataError, match=r"src: the file is empty; a corpus needs at least one sentence"):
        binarise(src, src, tmp_path / "store", tokenizers, CleaningConfig())


def test_a_corpus_of_which_nothing_is_left_is_refused_with_the_reasons(tmp_path, tokenizers, write):
    src, tgt = write(tmp_path / "src", ["", "a"]), write(tmp_path / "tgt", ["b", " "])
    with pytest.raises(DataError, match="nothing is left to learn from: 0 of 2 pairs kept; 2 left out because a side"):
        binarise(src, tgt, tmp_path / "store", tokenizers, CleaningConfig())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["src", "tgt"]


def test_an_error_in_the_text_leaves_the_old_store(make_store, tmp_path, tokenizers):
    store = make_store(5)
    (tmp_path / "bad").write_bytes(b"a\nb\nc\nd\n\xff\n")
    with pytest.raises(DataError, match="bad:5: byte 1"):
        binarise(tmp_path / "bad", tmp_path / "0.tgt", store.folder, tokenizers, None)
    Store(store.folder).verify()


def test_a_missing_file_is_named(tmp_path, tokenizers, write):
    with pytest.raises(MissingInputError, match="missing"):
        binarise(tmp_path / "missing", write(tmp_path / "a", ["a"]), tmp_path / "store", tokenizers, None)


def test_compressed_text_gives_the_same_columns(make_store, tmp_path, tokenizers):
    plain = make_store(9)
    packed = {side: tmp_path / f"{side}.gz" for side in ("src", "tgt")}
    for side, path in packed.items():
        path.write_bytes(gzip.compress((tmp_path / f"0.{side}").read_bytes()))
    binarise(packed["src"], packed["tgt"], tmp_path / "store", tokenizers, None)
    assert Store(tmp_path / "store").manifest.columns == plain.manifest.columns
