"""Model folders: writing, reading, damage, and other formats."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from mtkit import __version__
from mtkit.corpus.order.batch import collate
from mtkit.errors import DamagedError, DataError, FormatError, MissingInputError, UsageError
from mtkit.io.records import read_record, write_record
from mtkit.model_folder.config_file import FORMAT, verify_model
from mtkit.model_folder.folder import ModelMetadata, find_model, read_model, write_model
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.weights import weights

KINDS = [
    TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1),
    Seq2SeqRNNConfig(d_model=8, d_embed=8, num_layers=1),
    AttentionRNNConfig(d_model=8, d_embed=8, d_attention=8),
]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> TokenizerPair:
    folder = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("".join(f"line {number} of some text\n" for number in range(50)))
    train_pair([text], [text], folder, TokenizerConfig(vocab_size=130))
    return TokenizerPair.load(folder)


def write(
    folder: Path,
    tokenizers: TokenizerPair,
    config: ModelConfigBase = KINDS[0],
    *,
    seed: int = 0,
    lexicon: Path | None = None,
) -> None:
    torch.manual_seed(seed)
    model = config.build(tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
    description = ModelMetadata(
        src_lang="no",
        tgt_lang="de",
        max_source_length=17,
        tokenizer=tokenizers.config,
        model=config,
        search=SearchConfig(beam_size=3),
    )
    write_model(folder, weights(model), description, tokenizers, card="# A card\n", lexicon=lexicon)


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.kind)
def test_a_written_model_is_read_back(tmp_path: Path, tokenizers: TokenizerPair, config: ModelConfigBase) -> None:
    write(tmp_path / "m", tokenizers, config, seed=5)
    loaded = read_model(tmp_path / "m")
    torch.manual_seed(5)
    model = config.build(tokenizers.src.vocab.size, tokenizers.tgt.vocab.size).eval()
    batch = collate([[40, 41], [42]], [[43], [44, 45]], [0, 1], tokenizers.src.vocab, tokenizers.tgt.vocab)
    with torch.no_grad():
        assert torch.equal(
            loaded.model.decode_states(batch.source, batch.target), model.decode_states(batch.source, batch.target)
        )
    assert not loaded.model.training
    assert loaded.metadata.model == config
    assert loaded.metadata.search.beam_size == 3
    assert loaded.metadata.src_lang == "no"
    assert loaded.tokenizers.hash() == tokenizers.hash()


def test_equal_weights_are_equal_bytes_from_anywhere(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    for name in ("here", "elsewhere"):
        write(tmp_path / name / "m", tokenizers)
    files = sorted(path.name for path in (tmp_path / "here" / "m").iterdir())
    assert files == ["README.md", "config.json", "model.safetensors", "spm.model"]
    for file in files:
        content = (tmp_path / "here" / "m" / file).read_bytes()
        assert content == (tmp_path / "elsewhere" / "m" / file).read_bytes()
        assert str(tmp_path).encode() not in content
        assert socket.gethostname().encode() not in content


def test_tied_weights_are_stored_once_and_tied_again(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    write(tmp_path / "m", tokenizers)
    vocab = tokenizers.src.vocab.size
    with safe_open(tmp_path / "m" / "model.safetensors", "pt") as file:
        tables = [name for name in file.keys() if file.get_tensor(name).shape[0] == vocab]  # noqa: SIM118
    assert len(tables) == 1
    model = read_model(tmp_path / "m").model
    assert len({p.data_ptr() for p in model.parameters() if p.size(0) == vocab}) == 1
    assert model.output.weight.data_ptr() in {p.data_ptr() for p in model.parameters()}


def test_a_run_folder_is_a_model(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    write(tmp_path / "run" / "model", tokenizers)
    assert find_model(tmp_path / "run") == tmp_path / "run" / "model"


def test_a_missing_model_is_reported_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(
        MissingInputError, match="no such folder; MODEL must be a model folder or the folder of a finished run"
    ):
        read_model(tmp_path / "x")
    with pytest.raises(MissingInputError, match=r"neither a model folder nor a run folder; it has no config.json"):
        read_model(tmp_path)
    (tmp_path / "recipe.yaml").write_text("name: x")
    with pytest.raises(
        MissingInputError, match="this run has no model yet, since its training is not finished; continue with mtkit"
    ):
        read_model(tmp_path)


def test_a_recommended_command_is_quoted_for_the_shell(tmp_path: Path) -> None:
    folder = tmp_path / "two words"
    folder.mkdir()
    (folder / "recipe.yaml").write_text("name: x")
    with pytest.raises(MissingInputError, match=f"--run-dir '{folder}'$"):
        read_model(folder)


@pytest.mark.parametrize("file", ["model.safetensors", "spm.model", "README.md"])
def test_a_missing_file_is_named(tmp_path: Path, tokenizers: TokenizerPair, file: str) -> None:
    write(tmp_path / "m", tokenizers)
    (tmp_path / "m" / file).unlink()
    with pytest.raises(DamagedError, match=f"m: damaged: {file} is missing; mtkit train"):
        read_model(tmp_path / "m")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", "m: damaged: model.safetensors not as written; mtkit train makes"),
        ("spm.model", "m: damaged: spm.model not as written; mtkit train makes"),
        ("config.json", "config.json: damaged, or edited by hand: .*; search settings are changed .* with --set"),
    ],
)
def test_a_truncated_file_is_named(tmp_path: Path, tokenizers: TokenizerPair, file: str, message: str) -> None:
    write(tmp_path / "m", tokenizers)
    path = tmp_path / "m" / file
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match=message):
        read_model(tmp_path / "m")


@pytest.mark.parametrize("file", ["model.safetensors", "spm.model", "lexicon.safetensors", "README.md"])
def test_a_flipped_bit_is_detected(tmp_path: Path, tokenizers: TokenizerPair, file: str) -> None:
    (tmp_path / "lexicon").write_bytes(bytes(range(256)))
    write(tmp_path / "m", tokenizers, lexicon=tmp_path / "lexicon")
    read_model(tmp_path / "m")
    content = bytearray((tmp_path / "m" / file).read_bytes())
    content[-3] ^= 1
    (tmp_path / "m" / file).write_bytes(content)
    with pytest.raises(DamagedError, match=f"m: damaged: {file} not as written; mtkit train makes the model of a run"):
        verify_model(tmp_path / "m")
    with pytest.raises(DataError, match=file):
        read_model(tmp_path / "m")


def test_a_model_without_lexicon_is_read_and_one_without_hashes_not(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    (tmp_path / "lexicon").write_bytes(b"x")
    write(tmp_path / "m", tokenizers, lexicon=tmp_path / "lexicon")
    whole = read_model(tmp_path / "m").model.state_dict()
    (tmp_path / "m" / "lexicon.safetensors").unlink()
    without_lexicon = read_model(tmp_path / "m").model.state_dict()
    assert without_lexicon.keys() == whole.keys()
    assert all(torch.equal(without_lexicon[name], whole[name]) for name in whole)
    change(tmp_path / "m", files={})
    with pytest.raises(DamagedError, match=r"config.json: damaged: no hash of README.md, model.safetensors, spm.model"):
        read_model(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    path.write_text(path.read_text().rpartition(",")[0] + "}")  # without its own checksum
    with pytest.raises(DamagedError, match=r"config.json: damaged, or edited by hand"):
        read_model(tmp_path / "m")


def change(folder: Path, **changes: object) -> None:
    """Change keys of config.json, with a checksum that matches."""
    path = folder / "config.json"
    write_record(path, {**read_record(path, remedy=""), **changes})


@pytest.mark.parametrize(("version", "writer"), [(1, "0.1.0"), (99, "9.9")])
def test_another_format_is_refused_in_one_sentence(
    tmp_path: Path, tokenizers: TokenizerPair, version: int, writer: str
) -> None:
    write(tmp_path / "m", tokenizers)
    path = tmp_path / "m" / "config.json"
    fields = {**read_record(path, remedy=""), "format": version, "mtkit": writer, "longest_source": 17}
    path.write_text(json.dumps({**fields, "sha256": {"spm.model": "0"}}))  # as before format 3
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    with pytest.raises(FormatError) as caught:
        read_model(tmp_path / "m")
    assert str(caught.value) == (
        f"{tmp_path}/m/config.json: written by mtkit {writer} in model format {version}, but mtkit {__version__} reads "
        f"format {FORMAT}; train it again, or use mtkit {writer}"
    )
    assert caught.value.exit_code == 65
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before


def test_unknown_keys_of_another_version_are_refused_in_one_sentence(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    write(tmp_path / "m", tokenizers)
    fields = json.loads((tmp_path / "m" / "config.json").read_text())
    change(tmp_path / "m", mtkit="0.1.9", model={**fields["model"], "layer_drop": 0.1})
    message = (
        r"written by mtkit 0.1.9 with keys that mtkit \S+ does not read \(.*layer_drop: no such key[^\n]*\); train it"
    )
    with pytest.raises(FormatError, match=message):
        read_model(tmp_path / "m")


def test_an_edited_config_is_refused(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    write(tmp_path / "m", tokenizers)
    change(tmp_path / "m", news=1)
    with pytest.raises(DataError, match=r"news: no such key"):
        read_model(tmp_path / "m")
    for version in ("1", None, True, -1, FORMAT):
        fields = json.loads((tmp_path / "m" / "config.json").read_text())
        (tmp_path / "m" / "config.json").write_text(json.dumps({**fields, "format": version}))
        with pytest.raises(DamagedError, match="edited by hand: it does not match its checksum; search settings are"):
            read_model(tmp_path / "m")


def test_an_edited_search_setting_is_refused(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    write(tmp_path / "m", tokenizers)
    path = tmp_path / "m" / "config.json"
    path.write_text(path.read_text().replace('"beam_size": 3', '"beam_size": 1'))
    with pytest.raises(DamagedError, match=r"search settings are changed in the recipe or with --set, not in this"):
        read_model(tmp_path / "m")


@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_a_source_length_that_is_no_positive_integer_is_refused(
    tmp_path: Path, tokenizers: TokenizerPair, value: float
) -> None:
    write(tmp_path / "m", tokenizers)
    change(tmp_path / "m", max_source_length=value)
    with pytest.raises(DataError, match="max_source_length"):
        read_model(tmp_path / "m")


def test_a_source_length_that_overflows_is_refused(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    write(tmp_path / "m", tokenizers)
    config = tmp_path / "m" / "config.json"
    config.write_text(config.read_text().replace('"max_source_length": 17', '"max_source_length": 1e999'))
    with pytest.raises(DataError, match=r"config\.json: damaged, or edited by hand"):
        read_model(tmp_path / "m")


def test_weights_of_another_model(tmp_path: Path, tokenizers: TokenizerPair) -> None:
    write(tmp_path / "m", tokenizers)
    fields = json.loads((tmp_path / "m" / "config.json").read_text())
    change(tmp_path / "m", model={**fields["model"], "d_ff": 16})
    with pytest.raises(DataError, match=r"the weights do not match the model: .* is \[.*\], the model has \["):
        read_model(tmp_path / "m")


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": '{"model_type": "marian", "d_model": 64}', "model.safetensors": ""},
        {"config.json": '{"architectures": ["M2M100ForConditionalGeneration"]}'},
        {"config.json": '{"add_source_eos": true, "decoder_start_token": "<s>"}', "model.bin": ""},
        {"model.npz": "", "decoder.yml": ""},
    ],
    ids=["transformers", "architectures", "ctranslate2", "marian"],
)
def test_a_model_of_another_program_is_to_be_imported(tmp_path: Path, files: dict[str, str]) -> None:
    folder = tmp_path / "their model"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    with pytest.raises(UsageError, match=r"a model of another program; import it first: mtkit import '.*/their model'"):
        find_model(folder)
