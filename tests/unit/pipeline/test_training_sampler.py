from pathlib import Path

import pytest
import torch
from sacrebleu import sentence_bleu

from mtkit.corpus.order.batch import collate_source
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline.validator import TrainingSampler, target_vocab_ids
from mtkit.search.config import LengthLimit
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.mapped_vocabulary import pad_vocabulary
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("the cat sat on the mat\nthe dog ran to the cat\n" * 20)
    train_pair([text], [text], folder, TokenizerConfig(model_type="char", vocab_size=115))
    return TokenizerPair.load(folder).tgt


def test_text_ids_start_after_special_tokens(tokenizer):
    vocab_ids = target_vocab_ids(tokenizer)
    encoded = {token for ids in tokenizer.encode(["the cat sat on the mat"]) for token in ids}
    assert min(encoded) >= vocab_ids.first_text_id > max(tokenizer.special_ids)
    assert vocab_ids.size == vocab_ids.end_text_id == tokenizer.vocab.size


def test_text_ids_end_before_padding(tokenizer):
    padded = Tokenizer(pad_vocabulary(tokenizer.model, 64))
    vocab_ids = target_vocab_ids(padded)
    assert (vocab_ids.size, vocab_ids.end_text_id) == (128, tokenizer.vocab.size)
    assert vocab_ids.first_text_id == target_vocab_ids(tokenizer).first_text_id


def test_samples_are_reproducible_and_respect_the_length_limit(tokenizer):
    torch.manual_seed(0)
    config = TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1)
    model = config.build(tokenizer.vocab.size, tokenizer.vocab.size).eval()
    source = collate_source(tokenizer.encode(["the cat", "the dog ran"]), tokenizer.vocab)
    sampled = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        sampled.append(
            TrainingSampler(tokenizer, LengthLimit(offset=4)).sample(model, source, count=3, temperature=1.0)
        )
    assert sampled[0] == sampled[1] != sampled[2]
    assert [len(hyps) for hyps in sampled[0]] == [3, 3]
    first = target_vocab_ids(tokenizer).first_text_id
    assert all(len(hyp) <= 4 and min(hyp, default=first) >= first for hyps in sampled[0] for hyp in hyps)


def test_rewards_are_sacrebleu_scores_of_decoded_text(tokenizer):
    sampler = TrainingSampler(tokenizer, LengthLimit(offset=4))
    ref, *hyps = tokenizer.encode(["the cat sat on the mat", "the cat sat on the mat", "the cat ran on the mat", "dog"])
    for name in ("bleu", "chrf"):
        rewards = sampler.reward(name, hyps, ref)
        assert rewards[0] == pytest.approx(1.0)
        assert rewards[0] > rewards[1] > rewards[2] >= 0.0
    expected = sentence_bleu("the cat ran on the mat", ["the cat sat on the mat"], smooth_method="add-k").score
    assert sampler.reward("bleu", hyps, ref)[1] == pytest.approx(expected / 100)
