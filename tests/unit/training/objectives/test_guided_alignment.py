"""Guided alignment against sums over words, written out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mtkit.analysis.head_statistics import recorded_attention
from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.corpus.order.ragged import Ragged, lengths_to_offsets
from mtkit.models.transformer.config import (
    AllSharedConfig,
    CycleConfig,
    NoSharingConfig,
    SequenceConfig,
    TransformerConfig,
)
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.config import GuidedAlignmentConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.guided_alignment import GuidedAlignment, LexiconTable
from tests.toy.decoders import MODELS, VOCAB, assert_same_gradients, make_batch, make_model
from tests.toy.training import objective_inputs

ALIGNED_LAYERS = {1: 0, 2: 0, 3: 1}  # decoder layers -> the last but one, Garg et al. 2019, sec. 5


def guided_alignment(smoothing, weight, lexicon):
    inputs = objective_inputs(TeacherForcing(), smoothing, lexicon=lexicon)
    return GuidedAlignment(GuidedAlignmentConfig(weight=weight), inputs)


def random_lexicon(seed: int = 4) -> tuple[Lexicon, dict[tuple[int, int], float]]:
    """A lexicon with about half of all pairs in any order, and the same as a dictionary."""
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(VOCAB)[: rng.integers(0, VOCAB)].astype(np.int32) for _ in range(VOCAB)]
    probabilities = rng.random(sum(map(len, rows))).astype(np.float16)
    targets = Ragged(np.concatenate(rows), lengths_to_offsets(np.array([len(row) for row in rows])))
    pairs = [(source, int(target)) for source, row in enumerate(rows) for target in row]
    table = dict(zip(pairs, probabilities.astype(float).tolist(), strict=True))
    return Lexicon(targets, probabilities, np.arange(VOCAB, dtype=np.int32)), table


def alignment_loss(weights: torch.Tensor, batch, table: dict[tuple[int, int], float]) -> torch.Tensor:
    """The cross-entropy of the attention weights [B, T, S] given the alignments, word by word."""
    loss = torch.zeros((), dtype=torch.float64)
    for b, t in batch.loss_mask.nonzero().tolist():
        word = int(batch.labels[b, t])
        sources = [s for s in range(batch.source.ids.size(1)) if batch.source.real[b, s]]
        likelihoods = {s: table.get((int(batch.source.ids[b, s]), word), 0.0) for s in sources}
        if total := sum(likelihoods.values()):
            loss = loss - sum(p / total * weights[b, t, s].log() for s, p in likelihoods.items() if p)
    return loss


@pytest.mark.parametrize("layers", ALIGNED_LAYERS)
def test_the_loss_is_that_of_words_and_of_the_first_head(layers: int) -> None:
    config = TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=layers, dropout=0.0)
    model, batch = make_model(config), make_batch()
    lexicon, table = random_lexicon()
    losses = guided_alignment(0.1, 0.7, lexicon)(model, batch)
    with weights_with_gradient(model, ALIGNED_LAYERS[layers]) as weights:
        hidden = model.decode_states(batch.source, batch.target)[batch.loss_mask]
    target = batch.labels[batch.loss_mask]
    words = F.cross_entropy(model.output(hidden), target, label_smoothing=0.1, reduction="sum")
    alignment = 0.7 * alignment_loss(weights[0][:, 0], batch, table)
    assert alignment.item() > 0.5
    assert losses.tokens == target.numel()
    assert_close(losses.extra["alignment"].double(), alignment.detach(), rtol=1e-5, atol=1e-5)
    assert_same_gradients_in_float32(model, losses.sum, words + alignment)


@contextmanager
def weights_with_gradient(model, layer: int) -> Iterator[list[torch.Tensor]]:
    """Collect the attention weights [B, H, T, S] of a decoder layer over the source."""
    weights: list[torch.Tensor] = []
    attention = model.decoder[layer].cross_attention
    hook = attention.register_forward_hook(lambda _, args, output: weights.append(output[1]))
    yield weights
    hook.remove()


def assert_same_gradients_in_float32(model, loss, expected) -> None:
    """Two losses and their gradients agree as far as a logarithm in float32 lets them."""
    parameters = list(model.parameters())
    assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    ours, theirs = (torch.autograd.grad(each, parameters, allow_unused=True) for each in (loss, expected))
    for one, other in zip(ours, theirs, strict=True):
        if one is not None:
            assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_table_has_every_pair_of_the_lexicon_and_no_other() -> None:
    lexicon, table = random_lexicon()
    source, target = torch.arange(VOCAB).unsqueeze(0), torch.arange(VOCAB).flip(0).unsqueeze(0)
    found = LexiconTable(lexicon)(source, target)[0]  # [T, S]
    expected = [[table.get((s, t), 0.0) for s in range(VOCAB)] for t in reversed(range(VOCAB))]
    assert_close(found, torch.tensor(expected))
    assert not LexiconTable(None)(source, target).any()


SHARING = (NoSharingConfig(), AllSharedConfig(), *(SequenceConfig(distinct=n) for n in (1, 2)), CycleConfig(distinct=2))


@pytest.mark.parametrize("sharing", SHARING)
def test_the_guided_attention_is_the_one_that_decoding_reads(sharing) -> None:  # type: ignore[no-untyped-def]
    """Also where several layers have the same weights."""
    config = TransformerConfig(
        d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=4, decoder_sharing=sharing, dropout=0.0
    )
    model, batch = make_model(config).eval(), make_batch()
    _, attention = model.decode_with_attention(batch.source, batch.target)
    state = model.start(batch.source)
    for t in range(batch.target.ids.size(1)):
        step = model.step(batch.target.ids[:, t], state)
        state = step.state
        assert_close(attention[:, :, t][batch.target.real[:, t]], step.attention[batch.target.real[:, t]])


def test_the_head_that_aligns_words_is_guided() -> None:
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 3, "dropout": 0.0}
    model, batch = make_model(TransformerConfig(**sizes, alignment_head=[2, 1])).eval(), make_batch()
    lexicon, table = random_lexicon()
    _, attention = model.decode_with_attention(batch.source, batch.target)
    losses = guided_alignment(0.0, 1.0, lexicon)(model, batch)
    expected = alignment_loss(attention[:, 1].double(), batch, table)
    assert_close(losses.extra["alignment"].double(), expected.detach(), rtol=1e-3, atol=1e-3)
    assert model.alignment_layer == 2


def test_without_a_lexicon_or_the_layer_it_is_cross_entropy() -> None:
    model, batch = make_model(MODELS["transformer"]), make_batch()
    words = CrossEntropy(TeacherForcing(), 0.1)(model, batch).sum
    assert_same_gradients(model, guided_alignment(0.1, 0.7, None)(model, batch).sum, words)
    model.decoder.layerdrop = 1.0  # every layer is skipped
    losses = guided_alignment(0.1, 0.7, random_lexicon()[0])(model, batch)
    assert losses.extra == {"alignment": torch.zeros((), dtype=torch.float64)}
    assert_close(losses.sum, CrossEntropy(TeacherForcing(), 0.1)(model, batch).sum)


def test_attention_that_is_exactly_zero_gives_a_finite_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = make_model(MODELS["transformer"]), make_batch()
    hidden, attention = model.decode_with_attention(batch.source, batch.target)
    monkeypatch.setattr(
        type(model), "decode_with_attention", lambda self, *sides: (hidden, attention * torch.tensor([0.0, 1.0, 1.0]))
    )
    losses = guided_alignment(0.0, 1.0, random_lexicon()[0])(model, batch)
    gradients = torch.autograd.grad(losses.sum, list(model.parameters()), allow_unused=True)
    assert all(gradient.isfinite().all() for gradient in gradients if gradient is not None)


def test_training_makes_the_head_look_at_the_aligned_words() -> None:
    """The target is the source backwards, and the lexicon translates each token into itself."""
    torch.manual_seed(3)
    config = TransformerConfig(d_model=16, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)
    model = config.build(VOCAB, VOCAB)
    tokens = torch.arange(VOCAB)
    identity = Ragged(tokens.int().numpy(), np.arange(VOCAB + 1))
    lexicon = Lexicon(identity, np.ones(VOCAB, dtype=np.float16), tokens.int().numpy())
    source = torch.tensor([[4, 5, 6], [6, 4, 5], [5, 6, 4]])
    real, pos, labels = torch.ones_like(source, dtype=torch.bool), torch.arange(3).expand(3, -1), source.flip(1)
    read = torch.cat([torch.full((3, 1), 2), labels[:, :2]], 1)
    batch = Batch(Source(source, real, pos), Target(read, real, pos), labels, real, torch.arange(3))
    objective, optimiser = guided_alignment(0.0, 1.0, lexicon), torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(80):
        optimiser.zero_grad()
        objective(model, batch).sum.backward()
        optimiser.step()
    with torch.no_grad(), recorded_attention(model) as weights:
        model.decode_states(batch.source, batch.target)
    (cross,) = (value for name, value in weights.items() if "cross" in name)
    assert (cross[:, 0].argmax(-1) == torch.tensor([2, 1, 0])).all()


def test_another_model_is_refused() -> None:
    with pytest.raises(TypeError, match="has no attention of all steps"):
        guided_alignment(0.1, 0.7, None)(make_model(MODELS["rnn"]), make_batch())
