"""Initial weights: parts of another model, with equal or different vocabularies, and word vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.corpus.config import CorpusConfig, TrainParallelFiles
from mtkit.errors import RecipeError
from mtkit.model_folder.folder import ModelMetadata, write_model
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline.builders import initialise, load_pretrained, load_word_vectors
from mtkit.recipe.sections import Recipe
from mtkit.search.config import SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.config import InitFromConfig, TrainingConfig, WordVectorsConfig
from mtkit.training.weights import weights

CONFIG = TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=2, decoder_layers=1)
UNTIED = [
    replace(CONFIG, tied_embeddings="none"),
    DecoderOnlyConfig(d_model=8, d_ff=8, num_heads=2, decoder_layers=1, tied_embeddings="none"),
    Seq2SeqRNNConfig(d_model=8, d_embed=8, num_layers=1, tied_embeddings="none"),
    AttentionRNNConfig(d_model=8, d_embed=8, d_attention=8, tied_embeddings="none"),
]
KEY = "training.init_from"


def trained_tokenizers(folder: Path, text: str, size: int) -> TokenizerPair:
    folder.mkdir()
    (folder / "text").write_text(f"{text}\n" * 5)
    train_pair([folder / "text"], [], folder, TokenizerConfig(vocab_size=size, model_type="char"))
    return TokenizerPair.load(folder)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenizerPair, TokenizerPair]:
    """Tokenizers of the letters a to f, and of d to h."""
    folder = tmp_path_factory.mktemp("tokenizers")
    return trained_tokenizers(folder / "old", "a bc def", 109), trained_tokenizers(folder / "new", "de fgh", 108)


def built(pair: TokenizerPair, config: TransformerConfig = CONFIG, seed: int = 2) -> Any:
    torch.manual_seed(seed)
    return config.build(pair.src.vocab.size, pair.tgt.vocab.size)


def saved(folder: Path, pair: TokenizerPair, config: TransformerConfig = CONFIG) -> tuple[Path, Any]:
    model = built(pair, config, seed=1)
    metadata = ModelMetadata(
        src_lang="en", tgt_lang="de", max_source_length=9, tokenizer=pair.config, model=config, search=SearchConfig()
    )
    write_model(folder / "model", weights(model), metadata, pair, card="")
    return folder / "model", model


def test_all_weights_are_copied(tmp_path, pairs):
    path, other = saved(tmp_path, pairs[0])
    model = built(pairs[0])
    assert load_pretrained(model, pairs[0], InitFromConfig(model=path), key=KEY) == f"all weights of {path}"
    for name, value in weights(model).items():
        assert torch.equal(value, weights(other)[name])


def test_selected_parts_are_copied_and_others_keep_their_values(tmp_path, pairs):
    path, other = saved(tmp_path, pairs[0])
    model = built(pairs[0], replace(CONFIG, decoder_layers=3))
    before = {name: value.clone() for name, value in weights(model).items()}
    load_pretrained(model, pairs[0], InitFromConfig(model=path, parts=["encoder", "embeddings"]), key=KEY)
    for name, value in weights(model).items():
        is_copied = not name.startswith("decoder")
        assert torch.equal(value, weights(other)[name] if is_copied else before[name]), name


@pytest.mark.parametrize("config", UNTIED, ids=lambda config: config.kind)
def test_tensors_with_a_row_for_each_token_are_known(config):
    """Otherwise a model of another vocabulary would be refused, or its rows be mixed up."""
    model = config.build(53, 59)
    sides = {53: "src", 59: "tgt"}
    by_token = {name: sides[value.size(0)] for name, value in weights(model).items() if value.size(0) in sides}
    assert by_token == {name: VOCAB_TENSORS[name] for name in by_token}
    assert set(by_token.values()) == {"src", "tgt"}


def test_embedding_rows_are_matched_by_token(tmp_path, pairs):
    old, new = pairs
    path, other = saved(tmp_path, old)
    model = built(new)
    before = model.src_embedding.table.weight.detach().clone()
    message = load_pretrained(model, new, InitFromConfig(model=path, tokenizer=False), key=KEY)
    new_tokens = new.src.ids_to_tokens(range(new.src.vocab.size))
    old_tokens = old.src.ids_to_tokens(range(old.src.vocab.size))
    unknown = {"g", "h"}
    assert set(new_tokens) - set(old_tokens) == unknown
    for row, token in enumerate(new_tokens):
        is_known = token not in unknown
        expected = other.src_embedding.table.weight[old_tokens.index(token)] if is_known else before[row]
        assert torch.equal(model.src_embedding.table.weight[row], expected)
    count = f"{len(new_tokens) - 2} of {len(new_tokens)}"
    assert message == f"all weights of {path}; it has {count} source tokens"  # tied: the source side is named alone


@pytest.mark.parametrize(
    ("changes", "parts", "message"),
    [
        ({"d_ff": 16}, None, "its weights do not match this recipe's model: decoder.0.feed_forward"),
        ({"encoder_layers": 1}, ["encoder"], "its weights do not match this recipe's model: encoder.1.attention"),
        ({"encoder_layers": 3}, ["encoder"], "its weights do not match this recipe's model: encoder.2.attention"),
        ({"tied_embeddings": "none"}, ["encodr"], ".parts.0: encodr: no part of this model; did you mean encoder?"),
    ],
)
def test_weights_that_do_not_match_the_model_are_refused(tmp_path, pairs, changes, parts, message):
    path, _ = saved(tmp_path, pairs[0])
    model, config = built(pairs[0], replace(CONFIG, **changes)), InitFromConfig(model=path, parts=parts)
    with pytest.raises(RecipeError) as caught:
        load_pretrained(model, pairs[0], config, key=KEY)
    assert str(caught.value).startswith(KEY)
    assert message in str(caught.value)


def test_word_vectors_replace_random_rows_and_are_scaled_to_their_rms(tmp_path, pairs):
    pair = pairs[0]
    model = built(pair, replace(CONFIG, tied_embeddings="target"))
    numbers = torch.randn(2, 8) * 7
    lines = [" ".join([word, *map(str, row.tolist())]) for word, row in zip(("▁", "e"), numbers, strict=True)]
    path = tmp_path / "vectors.vec"
    path.write_text("\n".join(lines) + "\n")
    table = model.tgt_embedding.table.weight
    before, source = table.detach().clone(), model.src_embedding.table.weight.detach().clone()
    (message,) = load_word_vectors(model, WordVectorsConfig(tgt=path), pair)
    assert message == f"{path}: 2 of 7 tokens (29%) are among its 2 words"
    rows = pair.tgt.tokens_to_ids(["▁", "e"])
    expected = numbers * before.square().mean().sqrt() / numbers.square().mean().sqrt()
    assert torch.allclose(table[rows], expected, atol=1e-6)
    others = [row for row in range(len(table)) if row not in rows]
    assert torch.equal(table[others], before[others])
    assert torch.equal(model.src_embedding.table.weight, source)


def test_a_tied_embedding_prefers_source_vectors(tmp_path, pairs):
    pair, model = pairs[0], built(pairs[0])
    (tmp_path / "src").write_text("▁ 1 1 1 1 1 1 1 1\ne 1 1 1 1 1 1 1 1\n")
    (tmp_path / "tgt").write_text("▁ 2 2 2 2 2 2 2 2\ne 3 3 3 3 -3 -3 -3 -3\nf 3 3 3 3 -3 -3 -3 -3\n")
    load_word_vectors(model, WordVectorsConfig(src=tmp_path / "src", tgt=tmp_path / "tgt"), pair)
    e, f = model.src_embedding.table.weight[pair.src.tokens_to_ids(["e", "f"])]
    assert (e > 0).all()
    assert (f < 0).sum() == 4


def test_word_vectors_overwrite_embeddings_of_pretrained_models(tmp_path, pairs):
    pair = pairs[0]
    path, other = saved(tmp_path, pair)
    (tmp_path / "vectors").write_text("▁ 1 1 1 1 1 1 1 1\ne 1 1 1 1 1 1 1 1\n")
    corpus = CorpusConfig(src_lang="en", tgt_lang="de", train=[TrainParallelFiles(src=tmp_path, tgt=tmp_path)])
    training = TrainingConfig(
        init_from=InitFromConfig(model=path), word_vectors=WordVectorsConfig(src=tmp_path / "vectors")
    )
    model = built(pair)
    messages: list[tuple[str, str]] = []
    recipe = Recipe(name="toy", corpus=corpus, model=CONFIG, training=training)
    initialise(model, recipe, pair, lambda *message: messages.append(message))
    table, pretrained = model.src_embedding.table.weight, other.src_embedding.table.weight
    rows = pair.src.tokens_to_ids(["▁", "e"])
    assert (table[rows] == table[rows[0], 0]).all()
    changed = [row for row in range(len(table)) if not torch.equal(table[row], pretrained[row])]
    assert changed == sorted(rows)
    assert [stage for stage, _ in messages] == ["init_from", "word_vectors"]
