from pathlib import Path

import pytest
import torch
from sacrebleu import sentence_bleu

from mtkit.build.training_sampler import SampledTranslations, target_pieces
from mtkit.corpus.order.collate import collate_source
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import LengthLimit
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("the cat sat on the mat\nthe dog ran to the cat\n" * 20)
    train_pair([text], [text], folder, TokenizerConfig(model_type="char", vocab_size=115))
    return TokenizerPair.load(folder).tgt


def test_pieces_that_text_consists_of(tokenizer):
    pieces = target_pieces(tokenizer)
    encoded = {piece for ids in tokenizer.encode(["the cat sat on the mat"]) for piece in ids}
    assert min(encoded) >= pieces.first > max(tokenizer.control_ids())
    assert pieces.size == tokenizer.vocab.size


def test_samples_follow_the_generator_and_the_limit(tokenizer):
    torch.manual_seed(0)
    config = TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1)
    model = config.build(tokenizer.vocab.size, tokenizer.vocab.size).eval()
    source = collate_source(tokenizer.encode(["the cat", "the dog ran"]), tokenizer.vocab)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(SampledTranslations(tokenizer, LengthLimit(b=4)).sample(model, source, count=3, temperature=1.0))
    assert drawn[0] == drawn[1] != drawn[2]
    assert [len(hyps) for hyps in drawn[0]] == [3, 3]
    first = target_pieces(tokenizer).first
    assert all(len(hyp) <= 4 and min(hyp, default=first) >= first for hyps in drawn[0] for hyp in hyps)


def test_rewards_are_sacrebleus_on_text(tokenizer):
    generation = SampledTranslations(tokenizer, LengthLimit(b=4))
    ref, *hyps = tokenizer.encode(["the cat sat on the mat", "the cat sat on the mat", "the cat ran on the mat", "dog"])
    for name in ("bleu", "chrf"):
        rewards = generation.reward(name, hyps, ref)
        assert rewards[0] == pytest.approx(1.0)
        assert rewards[0] > rewards[1] > rewards[2] >= 0.0
    expected = sentence_bleu("the cat ran on the mat", ["the cat sat on the mat"], smooth_method="add-k").score
    assert generation.reward("bleu", hyps, ref)[1] == pytest.approx(expected / 100)
