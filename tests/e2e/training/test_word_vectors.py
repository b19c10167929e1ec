"""`mtkit train-vectors`, then a training whose embeddings begin with these vectors (`training.word_vectors`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mtkit.cli import entry
from mtkit.model_folder.folder import LoadedModel, read_model
from mtkit.pipeline import stages
from tests.toy.runs import RecordingDisplay, toy, write_all

DIM = 8  # model.d_model of the toy Transformer
STILL = "training.optimiser={kind: adam, learning_rate: 1.0e-12}", "training.ema=null"  # the weights stay as they began
UNTIED = "tokenizer={model_type: word, vocab_size: 109, shared: false}", "model.tied_embeddings=none"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A corpus, and a finished run without word vectors in plain/."""
    pytest.importorskip("gensim", reason="needs the package gensim (extra vectors)")
    write_all(tmp_path)
    stages.run(toy(tmp_path, *UNTIED, *STILL), run_dir=tmp_path / "plain")
    return tmp_path


def train_vectors(folder: Path, side: str, *options: str) -> Path:
    path = folder / f"{side}.vec"
    text = folder / f"train.{ {'src': 'en', 'tgt': 'de'}[side] }"
    words = ["train-vectors", str(text), "-o", str(path), "--dim", str(DIM), "--min-count", "1", "--epochs", "2"]
    assert entry.execute([*words, *options]) == 0
    return path


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    """The lines of a file of word2vec after its header."""
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    assert header == f"{len(lines)} {DIM}"
    return {word: np.array(numbers, dtype=np.float64) for word, *numbers in (line.split(" ") for line in lines)}


def embeddings(loaded: LoadedModel, side: str) -> dict[str, np.ndarray]:
    """Rows of the embedding table by token."""
    tokenizer = getattr(loaded.tokenizers, side)
    table = getattr(loaded.model, f"{side}_embedding").table.weight.detach().double().numpy()
    return dict(zip(tokenizer.ids_to_tokens(range(tokenizer.vocab.size)), table, strict=True))


@pytest.mark.parametrize("of_tokens", [True, False])
def test_embeddings_begin_with_the_trained_vectors(folder: Path, of_tokens: bool) -> None:
    plain, keys, files = read_model(folder / "plain"), [], {}
    for side in ("src", "tgt"):
        options = ["--tokenizer", str(folder / "plain"), "--side", side] if of_tokens else []
        files[side] = train_vectors(folder, side, *options)
        keys.append(f"{side}: {files[side]}")
    display = RecordingDisplay()
    recipe = toy(folder, *UNTIED, *STILL, f"training.word_vectors={{{', '.join(keys)}}}")
    stages.run(recipe, run_dir=folder / "run", display=display)
    trained = read_model(folder / "run")
    for side, file in files.items():
        vectors, before, after = read_vectors(file), embeddings(plain, side), embeddings(trained, side)
        by_token = {token: vectors.get(token if of_tokens else token.removeprefix("\u2581")) for token in after}
        found = {token: vector for token, vector in by_token.items() if vector is not None}
        assert len(found) >= 7  # the words of the corpus
        factors = np.concatenate([after[token] / vector for token, vector in found.items()])
        np.testing.assert_allclose(factors, factors[0], rtol=1e-3)  # one factor for the file
        for token in after.keys() - found.keys():
            np.testing.assert_allclose(after[token], before[token], atol=1e-6)
    assert "tgt.vec: " in display.results["word_vectors"]


def test_vectors_of_another_width_are_refused_before_the_training(folder: Path, capsys: pytest.CaptureFixture) -> None:
    path = train_vectors(folder, "src", "--dim", "6")
    words = ["train", str(folder / "toy.yaml"), "--run-dir", str(folder / "run")]
    model = "model={kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}"
    assert entry.execute([*words, model, f"training.word_vectors.src={path}"]) == 65
    assert "src.vec:1: the vectors have 6 numbers, the embeddings of this model 8; set model.d_model" in (
        capsys.readouterr().err
    )
    assert not list((folder / "run" / "checkpoints").glob("*"))


def test_the_commands_of_the_shipped_recipe(folder: Path, capsys: pytest.CaptureFixture) -> None:
    for name in ("train", "val", "test_2016_flickr", "test_2017_flickr"):
        for lang in ("en", "de"):
            (folder / f"{name}.{lang}.gz").write_bytes((folder / f"train.{lang}").read_bytes())
    run, vectors, sizes = folder / "run", folder / "multi30k.vec", ["encoder_layers=1", "decoder_layers=1", "d_ff=16"]
    quick = ["max_updates=2", "validate_every=2", "checkpoint_every=2", "batch_tokens=128", "validation.sentences=4"]
    keys = [f"corpus.root={folder}", "tokenizer.vocab_size=140", f"training.word_vectors.src={vectors}"]
    keys += [*(f"model.{key}" for key in sizes), *(f"training.{key}" for key in quick), "--run-dir", str(run)]
    assert entry.execute(["preprocess", "multi30k-word-vectors", *keys]) == 0
    text = [str(folder / f"train.{lang}.gz") for lang in ("en", "de")]
    options = ["--dim", "128", "--min-count", "2", "--tokenizer", str(run), "-o", str(vectors)]
    assert entry.execute(["train-vectors", *text, *options]) == 0
    capsys.readouterr()
    token = vectors.read_text(encoding="utf-8").split("\n")[1].partition(" ")[0]
    assert entry.execute(["nearest", str(vectors), token]) == 0
    assert capsys.readouterr().out.count("\n") > 3
    assert entry.execute(["run", "multi30k-word-vectors", *keys]) == 0
    assert "are among its" in capsys.readouterr().err
