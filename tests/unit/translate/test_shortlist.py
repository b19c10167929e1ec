"""Shortlist: its coverage of references, its selection rule, and search restricted to it."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from mtkit.corpus.binarise import binarise
from mtkit.corpus.ibm_model1 import Lexicon, learn_lexicon
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import Store
from mtkit.models.rnn.config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.lines import read_lines
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.translate.engines.interface import TorchEngine
from mtkit.translate.shortlist import Shortlist
from mtkit.translate.translator import TranslationOptions, Translator

DATA = Path(__file__).parents[3] / "data"
MIN_COVERAGE = 0.98  # share of reference tokens that the shortlists of held-out sentences contain
TRAINED, HELD_OUT = 1500, 200  # sentence pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("corpus")
    for lang in ("en", "de"):
        lines = list(itertools.islice(read_lines(DATA / f"train.{lang}"), TRAINED + HELD_OUT))
        (folder / f"train.{lang}").write_text("".join(f"{line}\n" for line in lines[:TRAINED]))
        (folder / f"held.{lang}").write_text("".join(f"{line}\n" for line in lines[TRAINED:]))
    train = [folder / "train.en"], [folder / "train.de"]
    (folder / "tokenizer").mkdir()
    train_pair(*train, folder / "tokenizer", TokenizerConfig(vocab_size=600))
    return folder


@pytest.fixture(scope="module")
def tokenizers(folder) -> TokenizerPair:
    return TokenizerPair.load(folder / "tokenizer")


@pytest.fixture(scope="module")
def lexicon(folder, tokenizers) -> Lexicon:
    binarise(folder / "train.en", folder / "train.de", folder / "store", tokenizers, None)
    return learn_lexicon([Store(folder / "store")])


@pytest.mark.parametrize("size", [1, 4])
def test_coverage_of_the_references_of_held_out_sentences(size, folder, tokenizers, lexicon):
    vocab = tokenizers.tgt.vocab
    shortlist = Shortlist(lexicon, [vocab.eos], num_frequent=50)
    src = tokenizers.src.encode(list(read_lines(folder / "held.en")))
    tgt = tokenizers.tgt.encode(list(read_lines(folder / "held.de")))
    covered = total = 0
    sizes = []
    for start in range(0, HELD_OUT, size):
        ids = shortlist.token_ids(src[start : start + size], vocab.eos)
        assert vocab.eos in ids
        assert ids.tolist() == sorted(set(ids.tolist()))
        tokens = np.concatenate(tgt[start : start + size])
        covered += np.isin(tokens, ids.numpy()).sum()
        total += len(tokens)
        sizes.append(len(ids))
    assert covered / total >= MIN_COVERAGE
    assert np.mean(sizes) < vocab.size / 2


def test_selection_by_expected_counts_in_the_batch():
    targets = Ragged.of([[], [], [], [4], [5, 6], [6, 7], [], []])
    probabilities = np.array([0.5, 0.9, 0.3, 0.3, 0.05], dtype=np.float16)
    lexicon = Lexicon(targets, probabilities, np.array([7, 0, 1, 2, 3, 4, 5, 6], dtype=np.int32))

    def select(sources, expected, frequent=0):
        return (
            Shortlist(lexicon, [3], num_frequent=frequent, min_expected_count=expected).token_ids(sources, 3).tolist()
        )

    assert select([[4]], 0.6) == [3, 5]
    assert select([[4], [5]], 0.4) == [3, 4, 5, 6]  # two ends of sentence, and 6 from both words
    assert select([[6, 7]], 0.6, frequent=2) == [0, 3, 7]
    assert select([[6]], 0.0) == list(range(8))


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=2),
        AttentionRNNConfig(d_model=16, d_embed=12, d_attention=8),
    ],
    ids=lambda config: config.kind,
)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_search_is_restricted_to_the_shortlist(config, beam_size, folder, tokenizers, lexicon):
    torch.manual_seed(0)
    vocab = tokenizers.tgt.vocab
    model = config.build(vocab.size, vocab.size).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)
    lines = list(read_lines(folder / "held.en"))[:12]

    def translations(shortlist):
        search = SearchConfig(beam_size=beam_size, max_length=MaxLength(factor=1.0, offset=5))
        engine = TorchEngine([model], compute_type="float32")
        options = TranslationOptions(with_scores=True, batch_tokens=300)
        return list(Translator(engine, tokenizers, search, options=options, shortlist=shortlist).translate(lines))

    free = translations(None)
    full = translations(Shortlist(lexicon, [vocab.eos], min_expected_count=0))
    assert [t.hyp for t in full] == [t.hyp for t in free]
    assert [t.score for t in full] == pytest.approx([t.score for t in free], abs=1e-4)
    few, allowed = Shortlist(lexicon, [vocab.eos], num_frequent=20, min_expected_count=0.3), set()

    class RecordingShortlist:
        def token_ids(self, sources, eos):
            chosen = few.token_ids(sources, eos)
            allowed.update(chosen.tolist())
            return chosen

    used = {token for t in translations(RecordingShortlist()) for token in tokenizers.tgt.tokens_to_ids(t.tokens)}
    assert used <= allowed
    assert not used <= set(tokenizers.tgt.special_ids())
    unrestricted = {token for t in free for token in tokenizers.tgt.tokens_to_ids(t.tokens)}
    assert not unrestricted <= allowed
