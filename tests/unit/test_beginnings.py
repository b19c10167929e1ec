"""Weights from elsewhere: parts of another model, with the same vocabulary or another, and word vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.build.initial_weights import begin, take_vectors, take_weights
from mtkit.corpus.config import CorpusConfig, TrainFiles
from mtkit.errors import RecipeError
from mtkit.layers.attention.longformer import LongformerConfig
from mtkit.model_folder.folder import Description, write_model
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe.recipe import Recipe
from mtkit.search.config import SearchConfig
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.init_config import InitFromConfig, WordVectorsConfig
from mtkit.training.weights import weights

CONFIG = TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=2, decoder_layers=1)
KEY = "training.init_from"


def learned(folder: Path, text: str, size: int) -> TokenizerPair:
    folder.mkdir()
    (folder / "text").write_text(f"{text}\n" * 5)
    train_pair([folder / "text"], [], folder, TokenizerConfig(vocab_size=size, model_type="char"))
    return TokenizerPair.load(folder)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenizerPair, TokenizerPair]:
    """Of the letters a to f, and of d to h."""
    folder = tmp_path_factory.mktemp("tokenizers")
    return learned(folder / "old", "a bc def", 109), learned(folder / "new", "de fgh", 108)


def built(pair: TokenizerPair, config: TransformerConfig = CONFIG, seed: int = 2) -> Any:
    torch.manual_seed(seed)
    return config.build(pair.src.vocab.size, pair.tgt.vocab.size)


def saved(folder: Path, pair: TokenizerPair, config: TransformerConfig = CONFIG) -> tuple[Path, Any]:
    model = built(pair, config, seed=1)
    description = Description(
        src_lang="en", tgt_lang="de", longest_source=9, tokenizer=pair.config, model=config, search=SearchConfig()
    )
    write_model(folder / "model", weights(model), description, pair, card="")
    return folder / "model", model


def test_the_whole_of_a_model(tmp_path, pairs):
    path, other = saved(tmp_path, pairs[0])
    model = built(pairs[0])
    assert take_weights(model, pairs[0], InitFromConfig(model=path), key=KEY) == f"all weights of {path}"
    for name, value in weights(model).items():
        assert torch.equal(value, weights(other)[name])


def test_parts_of_a_model(tmp_path, pairs):
    path, other = saved(tmp_path, pairs[0])
    model = built(pairs[0], replace(CONFIG, decoder_layers=3))
    before = {name: value.clone() for name, value in weights(model).items()}
    take_weights(model, pairs[0], InitFromConfig(model=path, parts=["encoder", "embeddings"]), key=KEY)
    for name, value in weights(model).items():
        is_taken = not name.startswith("decoder")
        assert torch.equal(value, weights(other)[name] if is_taken else before[name]), name


def test_pieces_look_for_their_rows_by_name(tmp_path, pairs):
    old, new = pairs
    path, other = saved(tmp_path, old)
    model = built(new)
    before = model.src_embedding.table.weight.detach().clone()
    said = take_weights(model, new, InitFromConfig(model=path, tokenizer=False), key=KEY)
    names = new.src.pieces(range(new.src.vocab.size))
    theirs = old.src.pieces(range(old.src.vocab.size))
    unknown = {"g", "h"}
    assert set(names) - set(theirs) == unknown
    for row, name in enumerate(names):
        known = name not in unknown
        expected = other.src_embedding.table.weight[theirs.index(name)] if known else before[row]
        assert torch.equal(model.src_embedding.table.weight[row], expected)
    count = f"{len(names) - 2} of {len(names)}"
    assert said == f"all weights of {path}; {count} source pieces are known there"  # what is tied has its first name


@pytest.mark.parametrize(
    ("changes", "parts", "message"),
    [
        ({"d_ff": 16}, None, "its weights do not fit this recipe's model: decoder.0.feed_forward"),
        ({"encoder_layers": 1}, ["encoder"], "its weights do not fit this recipe's model: encoder.1.attention"),
        ({"encoder_layers": 3}, ["encoder"], "its weights do not fit this recipe's model: encoder.2.attention"),
        ({"tied_embeddings": "none"}, ["encodr"], ".parts.0: encodr: no part of this model; did you mean encoder?"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, pairs, changes, parts, message):
    path, _ = saved(tmp_path, pairs[0])
    model, config = built(pairs[0], replace(CONFIG, **changes)), InitFromConfig(model=path, parts=parts)
    with pytest.raises(RecipeError) as caught:
        take_weights(model, pairs[0], config, key=KEY)
    assert str(caught.value).startswith(KEY)
    assert message in str(caught.value)


def test_vectors_take_the_place_of_random_rows_at_their_size(tmp_path, pairs):
    pair = pairs[0]
    model = built(pair, replace(CONFIG, tied_embeddings="target"))
    numbers = torch.randn(2, 8) * 7
    lines = [" ".join([word, *map(str, row.tolist())]) for word, row in zip(("▁", "e"), numbers, strict=True)]
    path = tmp_path / "vectors.vec"
    path.write_text("\n".join(lines) + "\n")
    table = model.tgt_embedding.table.weight
    before, source = table.detach().clone(), model.src_embedding.table.weight.detach().clone()
    (said,) = take_vectors(model, WordVectorsConfig(tgt=path), pair)
    assert said == f"{path}: 2 of 7 pieces (29%) are among its 2 words"
    rows = pair.tgt.piece_ids(["▁", "e"])
    expected = numbers * before.square().mean().sqrt() / numbers.square().mean().sqrt()
    assert torch.allclose(table[rows], expected, atol=1e-6)
    others = [row for row in range(len(table)) if row not in rows]
    assert torch.equal(table[others], before[others])
    assert torch.equal(model.src_embedding.table.weight, source)


def test_of_two_files_for_one_table_the_source_comes_first(tmp_path, pairs):
    pair, model = pairs[0], built(pairs[0])
    (tmp_path / "src").write_text("▁ 1 1 1 1 1 1 1 1\ne 1 1 1 1 1 1 1 1\n")
    (tmp_path / "tgt").write_text("▁ 2 2 2 2 2 2 2 2\ne 3 3 3 3 -3 -3 -3 -3\nf 3 3 3 3 -3 -3 -3 -3\n")
    take_vectors(model, WordVectorsConfig(src=tmp_path / "src", tgt=tmp_path / "tgt"), pair)
    e, f = model.src_embedding.table.weight[pair.src.piece_ids(["e", "f"])]
    assert (e > 0).all()
    assert (f < 0).sum() == 4


def test_a_model_that_asks_learns_which_pieces_end_a_sentence(tmp_path):
    pair = learned(tmp_path / "tokenizer", "ab. c!", 108)
    config = replace(CONFIG, encoder_attention=LongformerConfig(sentence_ends=True))
    corpus = CorpusConfig(src_lang="en", tgt_lang="de", train=[TrainFiles(src=tmp_path, tgt=tmp_path)])
    model = built(pair, config)
    said: list[tuple[str, str]] = []
    begin(model, Recipe(name="toy", corpus=corpus, model=config), pair, lambda *words: said.append(words))
    ends = model.sentence_ends(torch.arange(pair.src.vocab.size)).nonzero().flatten().tolist()
    assert {piece[-1] for piece in pair.src.pieces(ends)} == {".", "!"}
    assert said == [("sentence_ends", f"{len(ends)} of 108 source pieces end a sentence")]
