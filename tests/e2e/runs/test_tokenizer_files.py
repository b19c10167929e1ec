"""Tokenizers as files: from `train-bpe`, other programs and BPE codes to a trained model; `encode` and `decode`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece

from mtkit.cli import entry
from mtkit.errors import RecipeError
from mtkit.model_folder.folder import read_metadata
from mtkit.pipeline import stages
from mtkit.text.subword.import_tokenizer import import_tokenizer
from mtkit.text.subword.protobuf import read_fields
from mtkit.text.tokenizer import TokenizerPair
from tests.toy.runs import run, toy, write_all


def mtkit(*words: object) -> int:
    return entry.execute([str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


def foreign(folder: Path, name: str, **settings) -> Path:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "train.en"), model_writer=model, vocab_size=30, model_type="bpe", minloglevel=2, **settings
    )
    (folder / name).write_bytes(model.getvalue())
    return folder / name


def test_train_bpe_reports_a_tokenizer_that_it_replaces(folder, capsys) -> None:
    command = ("train-bpe", folder / "train.en", "--vocab-size", "150", "-o", folder / "x")
    assert mtkit(*command) == 0
    assert "replaced" not in capsys.readouterr().err
    assert mtkit(*command) == 0
    assert f"{folder / 'x.model'}: replaced" in capsys.readouterr().err
    before = (folder / "x.model").read_bytes()
    assert mtkit("train-bpe", folder / "none", "--vocab-size", "150", "-o", folder / "x") == 66
    assert "replaced" not in capsys.readouterr().err
    assert (folder / "x.model").read_bytes() == before


def test_train_bpe_output_is_the_tokenizer_of_a_run(folder, capsys) -> None:
    files = [folder / "train.en", folder / "train.de"]
    assert mtkit("train-bpe", *files, "--vocab-size", "150", "-o", folder / "x") == 0
    report, display = run(folder, "tokenizer={model: x.model}".replace("x.model", str(folder / "x.model")))
    assert (folder / "run/tokenizer/spm.model").read_bytes() == (folder / "x.model").read_bytes()
    assert f"{folder / 'x.model'}: bpe, 150 tokens" in display.results["tokenizer"]
    metadata = read_metadata(folder / "run/model").tokenizer
    assert (metadata.model, metadata.vocab_size, metadata.model_type) == (None, 150, "bpe")
    assert str(folder) not in (folder / "run/model/config.json").read_text()
    assert report.content["train"]["updates"] == 4
    (folder / "x.model").unlink()  # the training has its own copy
    _, display = run(folder, f"tokenizer={{model: {folder / 'x.model'}}}", "training.max_updates=5")
    assert "tokenizer" not in display.results or "unchanged" in str(display.results["tokenizer"])


def test_models_of_others_on_each_side(folder) -> None:
    (folder / "codes").write_text("#version: 0.2\nd e\nde r</w>\ni n\n")
    foreign(folder, "en.model")
    models = f"{{src: {folder / 'en.model'}, tgt: {folder / 'codes'}}}"
    _, display = run(folder, f"tokenizer={{model: {models}, shared: false}}", "model.tied_embeddings=target")
    assert "special tokens added" in display.results["tokenizer"]
    pair = TokenizerPair.load(folder / "run/tokenizer")
    assert pair.src.encode(["the dog"]) == import_tokenizer(folder / "en.model").tokenizer.encode(["the dog"])
    lines = (folder / "train.de").read_text().split("\n")
    assert pair.tgt.decode(pair.tgt.encode(lines)) == lines  # characters that no merge names are in the vocabulary
    foreign(folder, "en.model", split_digits=True, character_coverage=0.98, hard_vocab_limit=False)
    with pytest.raises(RecipeError, match=r"run: the model of tokenizer\.model changed since"):
        run(folder, f"tokenizer={{model: {models}, shared: false}}", "model.tied_embeddings=target")


def test_padding_of_an_existing_model_is_applied_again_when_it_changes(folder) -> None:
    recipe = [f"tokenizer.model={folder / 'codes'}"]
    (folder / "codes").write_text("#version: 0.2\nd e\nde r</w>\ni n\n")
    for multiple in (1, 8, 16):
        stages.preprocess(toy(folder, *recipe, f"tokenizer.pad_to_multiple_of={multiple}"), run_dir=folder / "run")
        assert TokenizerPair.load(folder / "run/tokenizer").src.vocab.size % multiple == 0


def test_two_sources_of_a_tokenizer_are_refused(folder) -> None:
    with pytest.raises(RecipeError, match=r"tokenizer\.model: training\.init_from gives the tokenizer too"):
        run(folder, f"tokenizer.model={folder / 'x'}", f"training.init_from={{model: {folder}, tokenizer: true}}")


def test_encode_and_decode_give_one_line_for_each_line(folder, capsys, monkeypatch) -> None:
    files = [folder / "train.en", folder / "train.de"]
    assert mtkit("train-bpe", *files, "--vocab-size", "150", "-o", folder / "x") == 0
    capsys.readouterr()
    text = "the dog sees\n\n  große  語 cat\nthe\x85dog\u2028\n"
    (folder / "text").write_text(text)
    assert mtkit("encode", folder / "x.model", folder / "text") == 0
    tokens = capsys.readouterr()
    assert tokens.out.count("\n") == 4
    assert "unknown tokens, in 2 of 4 lines\n" in tokens.err
    (folder / "tokens").write_text(tokens.out)
    assert mtkit("decode", folder / "x.model", folder / "tokens") == 0
    assert capsys.readouterr().out == text
    assert mtkit("encode", folder / "x.model", folder / "train.en", "--ids") == 0
    ids = capsys.readouterr()
    assert ids.err == ""
    assert set(ids.out) <= set("0123456789 \n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ids.out.encode())))
    assert mtkit("decode", folder / "x.model", "--ids") == 0
    assert capsys.readouterr().out == (folder / "train.en").read_text()


def test_encode_names_its_errors(folder, capsys) -> None:
    (folder / "ids").write_text("1 2\nx\n")
    foreign(folder, "en.model")
    assert mtkit("decode", folder / "en.model", folder / "ids", "--ids") == 65
    assert f"{folder / 'ids'}:2: 'x' is not an id" in capsys.readouterr().err
    assert mtkit("encode", folder / "train.en", folder / "ids") == 65
    assert "neither a sentencepiece model nor BPE codes" in capsys.readouterr().err
    assert mtkit("encode", folder / "none", folder / "ids") == 66
    assert mtkit("encode", folder, folder / "ids") == 66
    capsys.readouterr()
    (folder / "unknown").write_text("☃\n")
    assert mtkit("encode", folder / "en.model", folder / "unknown") == 0
    assert "1 unknown token, in 1 of 1 line\n" in capsys.readouterr().err
    (folder / "mark").write_text("the\u2581dog \u2581\n")
    assert mtkit("encode", folder / "en.model", folder / "mark") == 0
    assert "2 U+2581 characters replaced by underscores\n" in capsys.readouterr().err
    for command in ("encode", "decode"):
        assert mtkit(command, folder / "en", folder / "ids") == 66
        expected = f"mtkit: error: {folder / 'en'}: no such file; did you mean {folder / 'en.model'}?\n"
        assert capsys.readouterr().err == expected


def test_encode_reads_folders(toy_model, tokenizers, text, capsys) -> None:
    from mtkit.models.transformer.config import TransformerConfig

    config = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1)
    assert mtkit("encode", toy_model(config), text, "--ids") == 0
    lines = text.read_text().removesuffix("\n").split("\n")
    expected = [" ".join(map(str, ids)) for ids in tokenizers.src.encode(lines)]
    assert capsys.readouterr().out == "".join(f"{line}\n" for line in expected)


def test_sweep_compares_sizes_for_each_language(folder, capsys) -> None:
    files = [folder / "train.en", folder / "train.de"]
    assert mtkit("train-bpe", *files, "--sweep", "130,150", "-o", folder / "x") == 0
    lines = capsys.readouterr().out.split("\n")
    assert [line.partition(":")[0].split()[0] for line in lines if line] == ["130", "en", "de", "150", "en", "de"]
    assert {path.name for path in folder.glob("x.*.model")} == {"x.130.model", "x.150.model"}
    assert mtkit("train-bpe", *files, "--sweep", "130") == 0
    assert "tokens per word" in capsys.readouterr().out
    assert mtkit("train-bpe", *files, "--sweep", "x") == 2
    assert "--sweep x: give sizes" in capsys.readouterr().err
    assert mtkit("train-bpe", *files, "--sweep", "130", "--vocab-size", "130") == 2


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("--vocab-size", 10, "-o", "x"), "--vocab-size: 10 is too small"),
        (("--vocab-size", 10, "-o", "x", "--model-type", "byte_bpe"), "--vocab-size: 10 is too small"),
        (("--vocab-size", 9000, "-o", "x"), "--vocab-size: 9000 is too large"),
        (("--sweep", "9000"), "--sweep: 9000 is too large"),
        (
            ("--vocab-size", 200, "-o", "x", "--model-type", "word", "--min-frequency", 9999),
            "--min-frequency: no word of",
        ),
    ],
)
def test_train_bpe_names_its_options(folder, capsys, monkeypatch, words, place) -> None:
    monkeypatch.chdir(folder)
    assert mtkit("train-bpe", "train.en", *words) == 65
    message = capsys.readouterr().err
    assert message.startswith(f"mtkit: error: {place}")
    assert "tokenizer." not in message


def test_a_damaged_sentencepiece_model_is_named(folder, capsys) -> None:
    content = foreign(folder, "en.model").read_bytes()
    ends = [sum(len(field) for _, _, field in [*read_fields(content)][:count]) for count in (3, 30, 31)]
    for end in (8, len(content) // 2, len(content) - 1, *ends):  # also between two fields, where it can be parsed
        (folder / "en.model").write_bytes(content[:end])
        for command in ("encode", "decode"):
            assert mtkit(command, folder / "en.model", folder / "train.en") == 65
            message = capsys.readouterr().err
            assert "en.model: the sentencepiece model is damaged or cut off; copy the file again, or " in message
    assert mtkit("train", folder / "toy.yaml", f"tokenizer={{model: {folder / 'en.model'}}}", "--dry-run") == 65
    assert "en.model: the sentencepiece model is damaged or cut off" in capsys.readouterr().err
