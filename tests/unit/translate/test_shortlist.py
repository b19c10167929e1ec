"""The shortlist: what is in it, and that search among it is search."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from mtkit.corpus.binarise import binarise
from mtkit.corpus.lexicon import Lexicon, learn_lexicon
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import Store
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.lines import read_lines
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.translate.engines.interface import OwnEngine
from mtkit.translate.shortlist import Shortlist
from mtkit.translate.translator import TranslationOptions, Translator

DATA = Path(__file__).parents[3] / "data"
COVERED = 0.98  # share of the references' pieces that the shortlists of held-out sentences hold
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
def test_it_covers_the_references_of_held_out_sentences(size, folder, tokenizers, lexicon):
    vocab = tokenizers.tgt.vocab
    shortlist = Shortlist(lexicon, [vocab.eos], frequent=50)
    src = tokenizers.src.encode(list(read_lines(folder / "held.en")))
    tgt = tokenizers.tgt.encode(list(read_lines(folder / "held.de")))
    covered = total = 0
    sizes = []
    for begin in range(0, HELD_OUT, size):
        columns = shortlist.columns(src[begin : begin + size], vocab.eos)
        assert vocab.eos in columns
        assert columns.tolist() == sorted(set(columns.tolist()))
        pieces = np.concatenate(tgt[begin : begin + size])
        covered += np.isin(pieces, columns.numpy()).sum()
        total += len(pieces)
        sizes.append(len(columns))
    assert covered / total >= COVERED
    assert np.mean(sizes) < vocab.size / 2


def test_pieces_are_chosen_by_what_is_expected_of_the_whole_batch():
    targets = Ragged.of([[], [], [], [4], [5, 6], [6, 7], [], []])
    probabilities = np.array([0.5, 0.9, 0.3, 0.3, 0.05], dtype=np.float16)
    lexicon = Lexicon(targets, probabilities, np.array([7, 0, 1, 2, 3, 4, 5, 6], dtype=np.int32))

    def columns(sources, expected, frequent=0):
        return Shortlist(lexicon, [3], frequent=frequent, expected=expected).columns(sources, 3).tolist()

    assert columns([[4]], 0.6) == [3, 5]
    assert columns([[4], [5]], 0.4) == [3, 4, 5, 6]  # two ends of sentence, and 6 from both words
    assert columns([[6, 7]], 0.6, frequent=2) == [0, 3, 7]
    assert columns([[6]], 0.0) == list(range(8))


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=2),
        AttentionRNNConfig(d_model=16, d_embedding=12, d_attention=8),
    ],
    ids=lambda config: config.kind,
)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_search_among_a_shortlist(config, beam_size, folder, tokenizers, lexicon):
    torch.manual_seed(0)
    vocab = tokenizers.tgt.vocab
    model = config.build(vocab.size, vocab.size).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)
    lines = list(read_lines(folder / "held.en"))[:12]

    def translations(shortlist):
        search = SearchConfig(beam_size=beam_size, max_length=MaxLength(a=1.0, b=5))
        engine = OwnEngine([model], compute_type="float32")
        options = TranslationOptions(details=True, batch_tokens=300)
        return list(Translator(engine, tokenizers, search, options=options, shortlist=shortlist).translate(lines))

    free = translations(None)
    full = translations(Shortlist(lexicon, [vocab.eos], expected=0))
    assert [t.hyp for t in full] == [t.hyp for t in free]
    assert [t.score for t in full] == pytest.approx([t.score for t in free], abs=1e-4)
    few, allowed = Shortlist(lexicon, [vocab.eos], frequent=20, expected=0.3), set()

    class Watched:
        def columns(self, sources, eos):
            chosen = few.columns(sources, eos)
            allowed.update(chosen.tolist())
            return chosen

    used = {piece for t in translations(Watched()) for piece in tokenizers.tgt.piece_ids(t.pieces)}
    assert used <= allowed
    assert not used <= set(tokenizers.tgt.control_ids())
    assert not {p for t in free for p in tokenizers.tgt.piece_ids(t.pieces)} <= allowed  # it does leave something out
