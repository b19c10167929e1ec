"""The validator: its nll against torch's cross-entropy, and the part that is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from mtkit.build.validator import Part, Validator, spread
from mtkit.corpus.binarise import binarise
from mtkit.corpus.order.collate import collate
from mtkit.corpus.store import Store
from mtkit.models.interface import TranslationModel
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.distributed.process_group import Ranks
from mtkit.training.monitoring.validation import Validation
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.precision import Precision


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Store, TokenizerPair, TranslationModel]:
    text = tmp_path / "text"
    text.write_text("".join(f"line {'so ' * (number % 5)}{number}\n" for number in range(23)))
    train_pair([text], [text], tmp_path, TokenizerConfig(vocab_size=125))
    tokenizers = TokenizerPair.load(tmp_path)
    binarise(text, text, tmp_path / "store", tokenizers, None)
    torch.manual_seed(0)
    size = tokenizers.src.vocab.size
    return Store(tmp_path / "store"), tokenizers, LSTMConfig(d_model=8, d_embedding=8).build(size, size).eval()


def shout(model: TranslationModel, lines: Sequence[str]) -> list[str]:
    return [line.upper() for line in lines]


def same(hyps: Sequence[str], refs: Sequence[str]) -> float:
    return float(sum(hyp == ref.upper() for hyp, ref in zip(hyps, refs, strict=True)))


def judged(validator: Validator, model: TranslationModel, world_size: int = 1) -> Validation:
    """What that many processes find, one after the other: they ask nothing of each other before they are done."""
    return validator.join([validator.share(model, 1, Ranks(rank, world_size)) for rank in range(world_size)])


def validator(store: Store, part: Part, batch_tokens: int = 40) -> Validator:
    precision = Precision(name="float32", device="cpu", dtype=None)
    return Validator(
        store,
        part,
        translate=shout,
        bleu=same,
        batch_tokens=batch_tokens,
        precision=precision,
        objective=CrossEntropy(TeacherForcing(), 0.0),
    )


def test_nll_is_cross_entropy_per_token(parts: tuple[Store, TokenizerPair, TranslationModel]) -> None:
    store, tokenizers, model = parts
    total, tokens = 0.0, 0
    for sample in range(len(store)):
        src, tgt = store.ids("src", sample).tolist(), store.ids("tgt", sample).tolist()
        batch = collate([src], [tgt], [sample], tokenizers.src.vocab, tokenizers.tgt.vocab)
        with torch.no_grad():
            logits = model.output(model.hidden(batch.source, batch.target))[0]
            total += float(F.cross_entropy(logits, batch.labels[0], reduction="sum"))
        tokens += len(tgt) + 1
    for batch_tokens in (1, 40, 1000):
        found = judged(validator(store, Part.of(store, 0), batch_tokens), model)
        assert found.nll == pytest.approx(total / tokens, rel=1e-5)
        assert (found.bleu, found.sample) == (None, None)


def test_a_fixed_part_is_decoded(parts: tuple[Store, TokenizerPair, TranslationModel]) -> None:
    store, _, model = parts
    part = Part.of(store, 4)
    assert part == Part.of(store, 4)
    assert part.ref == part.src == [store.text("src", sample) for sample in (0, 7, 15, 22)]
    found = judged(validator(store, part), model)
    assert found.bleu == 4.0
    shown = part.src[part.shown]
    assert found.sample == (shown, shown.upper(), shown)


@pytest.mark.parametrize("world_size", [2, 3, 99])
def test_many_processes_find_what_one_does(
    parts: tuple[Store, TokenizerPair, TranslationModel], world_size: int
) -> None:
    store, _, model = parts
    whole = validator(store, Part.of(store, 7))
    assert judged(whole, model, world_size) == judged(whole, model)


def test_it_changes_nothing(parts: tuple[Store, TokenizerPair, TranslationModel]) -> None:
    store, _, model = parts
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    judged(validator(store, Part.of(store, 4)), model)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in before.items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(("count", "wanted", "expected"), [(5, 2, [0, 4]), (3, 9, [0, 1, 2]), (4, 0, []), (1, 1, [0])])
def test_spread(count: int, wanted: int, expected: list[int]) -> None:
    assert spread(count, wanted) == expected


def test_spread_has_as_many_as_wanted() -> None:
    assert all(len(spread(count, wanted)) == min(count, wanted) for count in range(1, 60) for wanted in range(1, 60))
