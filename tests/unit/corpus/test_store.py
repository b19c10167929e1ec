import mmap
import shutil

import numpy as np
import pytest

from mtkit.corpus.binarise import binarise
from mtkit.corpus.store import Store, id_type
from mtkit.errors import DamagedError, DataError, MissingInputError
from mtkit.io.records import read_record, write_record

COLUMNS = [
    f"{side}.{content}{part}" for side in ("src", "tgt") for content in ("ids", "text") for part in ("", ".offsets")
] + ["line"]


@pytest.fixture
def store(make_store):
    return make_store(12)


def test_columns_round_trip(store, tokenizers, tmp_path):
    for side in ("src", "tgt"):
        lines = (tmp_path / f"0.{side}").read_text().split("\n")[:-1]
        assert [store.text(side, sample) for sample in range(len(store))] == lines
        assert [store.ids(side)[sample].tolist() for sample in range(len(store))] == tokenizers.src.encode(lines)
        assert store.ids(side).lengths.tolist() == [len(line.split()) for line in lines]
        assert store.stats(side).max_length == store.ids(side).lengths.max()
        assert store.stats(side).max_length_line == store.ids(side).lengths.argmax() + 1
        assert store.stats(side).num_tokens == store.ids(side).lengths.sum()
    assert [store.line(sample) for sample in range(3)] == [1, 2, 3]
    store.verify()


def test_ids_are_memory_mapped_in_the_smallest_type(store):
    assert isinstance(memoryview(store.ids("src").flat.base).obj, mmap.mmap)
    assert store.ids("src")[0].dtype == np.uint16
    assert (id_type(65_536), id_type(65_537)) == (np.uint16, np.uint32)


def test_released_pages_are_read_again(store):
    flat = store.ids("tgt").flat
    before = flat.tolist()
    store.release_pages()
    assert flat.tolist() == before


@pytest.mark.parametrize("column", COLUMNS)
def test_a_truncated_column_is_named(store, column):
    path = store.folder / f"{column}.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=rf"{column}.bin: \d+ bytes instead of \d+; .*preprocess"):
        Store(store.folder)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_flipped_bit_is_named_by_verify(store, column):
    path = store.folder / f"{column}.bin"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"damaged: {column}.bin"):
        Store(store.folder).verify()


def test_missing_folder_or_column_file_is_named(store, tmp_path):
    with pytest.raises(MissingInputError, match="nowhere"):
        Store(tmp_path / "nowhere")
    (store.folder / "tgt.text.bin").unlink()
    with pytest.raises(DamagedError, match=r"tgt\.text\.bin: 0 bytes instead of .*; rebuild it with mtkit preprocess"):
        Store(store.folder)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 2, "src": 3}'])
def test_a_damaged_manifest_is_named(store, content):
    (store.folder / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json: damaged"):
        Store(store.folder)


def test_manifest_without_a_column_is_rejected(store):
    path = store.folder / "manifest.json"
    content = read_record(path, remedy="")
    del content["columns"]["line"]
    write_record(path, content)
    with pytest.raises(DataError, match="column line is missing"):
        Store(store.folder)


def test_offsets_of_another_column_are_rejected(store):
    path = store.folder / "src.ids.offsets.bin"
    shutil.copy(store.folder / "src.text.offsets.bin", path)
    with pytest.raises(DataError, match=r"src\.ids\.offsets\.bin: does not match"):
        Store(store.folder)


@pytest.mark.parametrize("version", [1, 99])
def test_another_format_is_refused(store, version):
    path = store.folder / "manifest.json"
    write_record(path, {**read_record(path, remedy=""), "format": version})
    with pytest.raises(DataError, match=f"has format {version}, this mtkit reads format 2"):
        Store(store.folder)


def test_blank_lines_are_kept_without_cleaning(tmp_path, tokenizers, write):
    src, tgt = write(tmp_path / "a", ["", " "]), write(tmp_path / "b", ["", ""])
    binarise(src, tgt, tmp_path / "store", tokenizers, None)
    store = Store(tmp_path / "store")
    assert [store.text("src", 0), store.text("src", 1)] == ["", " "]
    assert store.ids("tgt").lengths.tolist() == [0, 0]
