"""A model as Marian writes it: imported, it is that of transformers, and CTranslate2 reads the same file alike."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from safetensors.numpy import load_file

from mtkit.errors import DataError, MtkitError
from mtkit.importers.import_model import Languages, import_model
from mtkit.model_folder.folder import read_metadata
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.translate.load import load_scorer
from tests.toy.foreign_models import lines, make_marian

SETTINGS = {
    "type": "transformer",
    "dim-emb": 32,
    "enc-depth": 2,
    "dec-depth": 2,
    "transformer-heads": 4,
    "transformer-dim-ffn": 48,
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": False,
    "transformer-guided-alignment-layer": "last",
    "tied-embeddings-all": True,
    "beam-size": 12,
}


def marian_arrays(theirs: dict[str, Any]) -> dict[str, Any]:
    """The weights of a MarianMTModel by Marian's names, without those of padding."""
    arrays = {"Wemb": theirs["model.shared.weight"][:-1]}
    arrays["decoder_ff_logit_out_b"] = theirs["final_logits_bias"][:, :-1]
    short = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}
    for name, array in theirs.items():
        if ".layers." not in name:
            continue
        _, side, _, index, part, *rest = name.split(".")
        layer, kind = f"{side}_l{int(index) + 1}", rest[-1]
        value = array.T if kind == "weight" and array.ndim == 2 else array[None]
        attention = {"self_attn": "self", "encoder_attn": "context"}.get(part)
        if attention:
            ours = f"{layer}_{attention}_{'W' if kind == 'weight' else 'b'}{short[rest[0]]}"
        elif part in ("fc1", "fc2"):
            ours = f"{layer}_ffn_{'W' if kind == 'weight' else 'b'}{part[-1]}"
        else:
            where = {"self_attn_layer_norm": "self_Wo", "encoder_attn_layer_norm": "context_Wo"}.get(part, "ffn_ffn")
            ours = f"{layer}_{where}_ln_{'scale' if kind == 'weight' else 'bias'}"
        arrays[ours] = np.ascontiguousarray(value)
    return arrays


def write_npz(folder: Path, arrays: dict[str, Any], **changes: Any) -> None:
    settings = "\n".join(f"{key}: {json.dumps(value)}" for key, value in {**SETTINGS, **changes}.items())
    np.savez(folder / "model.npz", **arrays, **{"special:model.yml": np.frombuffer(settings.encode() + b"\0", np.int8)})


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model in Hugging Face's layout."""
    pytest.importorskip("transformers")
    return make_marian(tmp_path_factory.mktemp("hf"), updates=0, d_model=32, encoder_ffn_dim=48, decoder_ffn_dim=48)


@pytest.fixture
def marian(original: Path, tmp_path: Path) -> Path:
    """The same model as Marian writes it."""
    folder = tmp_path / "opus-en-de"
    folder.mkdir()
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes((original / name).read_bytes())
    tokens = list(json.loads((original / "vocab.json").read_text()))[:-1]
    (folder / "vocab.yml").write_text(
        "".join(f"{json.dumps(token, ensure_ascii=False)}: {n}\n" for n, token in enumerate(tokens))
    )
    (folder / "decoder.yml").write_text(
        "models: [model.npz]\nvocabs: [vocab.yml, vocab.yml]\nbeam-size: 6\nnormalize: 1\n"
    )
    theirs = load_file(original / "model.safetensors")
    theirs["model.shared.weight"][-1] = 0
    write_npz(folder, marian_arrays(theirs))
    return folder


@pytest.mark.whole
def test_both_layouts_give_the_same_model(original: Path, marian: Path, tmp_path: Path) -> None:
    import_model(original, tmp_path / "hf", Languages())
    assert "marian, en to de" in import_model(marian, tmp_path / "npz", Languages())[0]
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("npz", "hf"))
    start = len(json.loads((original / "vocab.json").read_text())) - 1
    for name, array in theirs.items():
        rows = array.copy()
        if name == "src_embedding.table.weight":
            rows[start] = 0  # transformers draws a vector, which Marian does not have
        if name == "output.bias":
            rows[start] = ours[name][start]
        np.testing.assert_array_equal(ours[name], rows)
    assert ours.keys() == theirs.keys()
    search = read_metadata(tmp_path / "npz").search
    assert (search.beam_size, search.length_penalty, search.allow_unknown) == (6, 1.0, False)


@pytest.mark.parametrize(
    ("layer", "files", "expected"),
    [
        ("last", {}, None),  # the default, with and without guided alignment
        ("last", {"README.md": "* model: transformer-align\n"}, [1, 0]),
        ("last", {"model.npz.yml": "guided-alignment: corpus.aln\ntransformer-guided-alignment-layer: last\n"}, [1, 0]),
        ("last", {"model.npz.yml": "guided-alignment: none\n"}, None),
        (1, {}, [0, 0]),
        ("2", {}, [1, 0]),
    ],
)
def test_the_head_of_guided_alignment_aligns_words(marian: Path, tmp_path: Path, layer, files, expected) -> None:
    with np.load(marian / "model.npz") as arrays:
        weights = {name: each for name, each in arrays.items() if ":" not in name}
    write_npz(marian, weights, **{"transformer-guided-alignment-layer": layer})
    for name, content in files.items():
        (marian / name).write_text(content)
    import_model(marian, tmp_path / "npz", Languages())
    assert read_metadata(tmp_path / "npz").model.alignment_head == expected


@pytest.mark.parametrize("layer", [0, 3, "first"])
def test_a_layer_of_guided_alignment_that_is_none_is_refused(marian: Path, tmp_path: Path, layer) -> None:
    with np.load(marian / "model.npz") as arrays:
        weights = {name: each for name, each in arrays.items() if ":" not in name}
    write_npz(marian, weights, **{"transformer-guided-alignment-layer": layer})
    with pytest.raises(DataError, match=f"layer: {layer} is neither last nor one of the 2 layers"):
        import_model(marian, tmp_path / "npz", Languages())


def test_the_card_of_opus_mt_says_whether_alignment_was_guided(original: Path, tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-de"
    shutil.copytree(original, folder)
    (folder / "README.md").write_text("* model: transformer-align\n* pre-processing: normalization + SentencePiece\n")
    import_model(folder, tmp_path / "hf", Languages())
    assert read_metadata(tmp_path / "hf").model.alignment_head == [1, 0]


def test_ctranslate2_reads_the_same_model(marian: Path, tmp_path: Path) -> None:
    """Given translations have the same log-probabilities by its conversion, which also begins with zeros."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    converter = ctranslate2.converters.MarianConverter(str(marian / "model.npz"), [str(marian / "vocab.yml")] * 2)
    converter.convert(str(tmp_path / "ct2"))
    import_model(marian, tmp_path / "npz", Languages())
    texts = [lines(name, 30) for name in ("test.en", "test.de")]
    sides = zip(("src", "tgt"), texts, strict=True)
    tokenizers = [(Tokenizer.load(tmp_path / "npz" / f"{side}.model"), text) for side, text in sides]
    tokens = [list(map(each.ids_to_tokens, each.encode(text))) for each, text in tokenizers]
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), compute_type="float32")
    expected = [sum(each.log_probs) for each in engine.score_batch(*tokens)]
    found = load_scorer([tmp_path / "npz"], compute_type="float32")(zip(*texts, strict=True))
    assert [each.log_prob for each in found] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_sentencepiece_model_may_be_the_vocabulary(marian: Path, tmp_path: Path, kind: str) -> None:
    """As Marian trains it, with </s> and <unk> first: ids are those of sentencepiece, scores those of CTranslate2."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    texts = [lines(name, 30) for name in ("test.en", "test.de")]
    (tmp_path / "text").write_text("\n".join([*lines("train.en", 500), *lines("train.de", 500)]))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(marian / "vocab"),
        model_type=kind,
        vocab_size=400,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(marian / "vocab.model"))
    (marian / "vocab.model").rename(marian / "vocab.spm")
    for name in ("source.spm", "target.spm", "vocab.yml"):
        (marian / name).unlink()
    (marian / "decoder.yml").write_text("vocabs: [vocab.spm, vocab.spm]\n")
    with np.load(marian / "model.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "special:model.yml"}
    numbers = np.random.default_rng(1).normal(scale=0.3, size=(400, 33)).astype(np.float32)
    arrays |= {"Wemb": numbers[:, :32].copy(), "decoder_ff_logit_out_b": numbers[:, 32][None].copy()}
    write_npz(marian, arrays)
    import_model(marian, tmp_path / "npz", Languages("en", "de"))
    for side, text in zip(("src", "tgt"), texts, strict=True):
        tokenizer = Tokenizer.load(tmp_path / "npz" / f"{side}.model")
        assert tokenizer.encode(text) == processor.encode(text)
        known = [line for line in text if 1 not in processor.encode(line)]
        assert tokenizer.decode(tokenizer.encode(known)) == known
        assert len(known) > 20
        assert (tokenizer.vocab.eos, tokenizer.vocab.unk, tokenizer.vocab.pad) == (0, 1, 400)
    pieces = [processor.id_to_piece(number) for number in range(400)]
    listed = "".join(f"{json.dumps(piece, ensure_ascii=False)}: {n}\n" for n, piece in enumerate(pieces))
    (tmp_path / "vocab.yml").write_text(listed)
    vocabularies = [str(tmp_path / "vocab.yml")] * 2
    converter = ctranslate2.converters.MarianConverter(str(marian / "model.npz"), vocabularies)
    converter.convert(str(tmp_path / "ct2"))
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), compute_type="float32")
    tokens = [processor.encode(text, out_type=str) for text in texts]
    expected = [sum(each.log_probs) for each in engine.score_batch(*tokens)]
    found = load_scorer([tmp_path / "npz"], compute_type="float32")(zip(*texts, strict=True))
    assert [each.log_prob for each in found] == pytest.approx(expected, rel=1e-5)


def change(**settings: Any) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        with np.load(folder / "model.npz") as file:
            write_npz(folder, {name: file[name] for name in file.files if name != "special:model.yml"}, **settings)

    return act


def cut(folder: Path) -> None:
    (folder / "model.npz").write_bytes((folder / "model.npz").read_bytes()[:5000])


def add_weight(folder: Path) -> None:
    with np.load(folder / "model.npz") as file:
        np.savez(folder / "model.npz", **file, more=np.zeros(3))


def append(path: Path, line: str) -> None:
    path.write_text(path.read_text().replace("beam-size: 6", line))


def replaced(name: str, array: Any) -> Callable[[Path], None]:
    """A weight of another kind."""

    def act(folder: Path) -> None:
        with np.load(folder / "model.npz") as file:
            np.savez(folder / "model.npz", **{**file, name: array})

    return act


def member(content: bytes, **options: Any) -> Callable[[Path], None]:
    """Wemb as these bytes."""

    def act(folder: Path) -> None:
        with zipfile.ZipFile(folder / "model.npz", "w", **options) as archive:
            archive.writestr("Wemb.npy", content)

    return act


def described(shape: str) -> Callable[[Path], None]:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return member(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64))


def encrypted(folder: Path) -> None:
    """The archive says that its members have a password."""
    content = (folder / "model.npz").read_bytes()
    for signature, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        parts = content.split(signature)
        marked = [each[: place - 4] + bytes([each[place - 4] | 1]) + each[place - 3 :] for each in parts[1:]]
        content = signature.join([parts[0], *marked])
    (folder / "model.npz").write_bytes(content)


def pickled(folder: Path) -> None:
    np.savez(folder / "model.npz", x=np.array([object()], dtype=object))


BAD = {
    "recurrent": (change(type="s2s"), "type: 's2s'; mtkit imports models with 'transformer' alone"),
    "right to left": (change(**{"right-left": True}), "right-left: True; mtkit imports models with False alone"),
    "a word penalty": (
        lambda folder: append(folder / "decoder.yml", "beam-size: 6\nword-penalty: 0.4"),
        "word-penalty: 0.4; mtkit imports models with 0.0 alone",
    ),
    "pre-norm": (change(**{"transformer-preprocess": "n"}), "transformer-preprocess: 'n'"),
    "gelu": (change(**{"transformer-ffn-activation": "gelu"}), "mtkit has swish and relu of Marian"),
    "other depth": (change(**{"enc-depth": 3}), "weights have no model.encoder.layers.2"),
    "cut off": (cut, "damaged, cut off, or no .npz"),
    "another weight": (add_weight, "more: mtkit imports no models with this weight"),
    "a number": (replaced("encoder_l1_self_Wq", np.float32(3)), r"encoder_l1_self_Wq: float32 \[\]; a vector or"),
    "texts": (replaced("Wemb", np.array(["a", "b"])), r"Wemb: <U1 \[2\]; a vector or matrix of floats"),
    "a vector": (replaced("Wemb", np.zeros(5, np.float32)), "of different models"),
    "five dimensions": (replaced("decoder_ff_logit_out_b", np.zeros((1, 2, 3, 1, 2))), "a vector or matrix"),
    "another width": (replaced("encoder_l1_self_bq", np.zeros((3, 3), np.float32)), "of different models"),
    "no array": (member(b"\x80\x04cposix\nsystem\n"), "Wemb: no array; a vector|has no special:model.yml"),
    "a shape of terabytes": (described("(1000000000000,)"), "damaged, cut off, or no .npz"),
    "a shape below 0": (described("(-3, 5)"), "damaged, cut off, or no .npz"),
    "a shape of 30 digits": (described(f"({'9' * 30},)"), "damaged, cut off, or no .npz"),
    "a shape of booleans": (described("(True, 5)"), "damaged, cut off, or no .npz"),
    "a bomb": (member(bytes(1 << 24), compression=zipfile.ZIP_DEFLATED), "16,777,216 bytes would come out of it"),
    "a torn description": (described("(3,"), "damaged, cut off, or no .npz"),
    "beams below 0": (lambda folder: append(folder / "decoder.yml", "beam-size: -5"), "beam"),
    "a password": (encrypted, "damaged, cut off, or no .npz .*password"),
    "a billion layers": (change(**{"enc-depth": 10**9}), "enc-depth: 1000000000; at most 1,000 is read"),
    "a pickle": (pickled, "damaged, cut off, or no .npz"),
    "no vocabulary": (lambda folder: (folder / "vocab.yml").unlink(), "vocab.yml: no such file"),
    "no list": (lambda folder: (folder / "vocab.yml").write_text("- a"), "no list of tokens"),
    "gaps": (lambda folder: (folder / "vocab.yml").write_text("a: 0\nb: 2"), "no list of tokens"),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", BAD)
def test_other_files_are_refused(marian: Path, tmp_path: Path, name: str) -> None:
    damage, message = BAD[name]
    damage(marian)
    with pytest.raises(MtkitError, match=message):
        import_model(marian, tmp_path / "out", Languages())
    assert not (tmp_path / "out").exists()
