"""Validator: its nll against torch's cross-entropy, and the decoded subset."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import sacrebleu
import torch
import torch.nn.functional as F

from mtkit.corpus.binarise import binarise
from mtkit.corpus.order.batch import collate
from mtkit.corpus.store import Store
from mtkit.evaluation.calibration import Calibration
from mtkit.layers.projections import is_low_rank
from mtkit.models.interface import TranslationModel
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.native.library import native
from mtkit.pipeline import validator as validator_module
from mtkit.pipeline.validator import DecodedSubset, TranslationValidator, ValidationSet, build_validator, evenly_spaced
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.config import LoRAConfig
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.distributed import ProcessGroup
from mtkit.training.monitoring.validation import Validation
from mtkit.training.numerics import Precision
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.translate.engine import NativeEngine
from tests.toy.runs import toy, write_all


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Store, TokenizerPair, TranslationModel]:
    text = tmp_path / "text"
    text.write_text("".join(f"line {'so ' * (number % 5)}{number}\n" for number in range(23)))
    train_pair([text], [text], tmp_path, TokenizerConfig(vocab_size=125))
    tokenizers = TokenizerPair.load(tmp_path)
    binarise(text, text, tmp_path / "store", tokenizers, None)
    torch.manual_seed(0)
    size = tokenizers.src.vocab.size
    return Store(tmp_path / "store"), tokenizers, Seq2SeqRNNConfig(d_model=8, d_embed=8).build(size, size).eval()


def shout(model: TranslationModel, lines: Sequence[str]) -> list[str]:
    return [line.upper() for line in lines]


def same(hyps: Sequence[str], refs: Sequence[str]) -> float:
    return float(sum(hyp == ref.upper() for hyp, ref in zip(hyps, refs, strict=True)))


def validate(validator: TranslationValidator, model: TranslationModel, world_size: int = 1) -> Validation:
    """Validate with several ranks in one process, one rank after another; shards do not communicate."""
    return validator.merge_shards(
        [validator.validate_shard(model, 1, ProcessGroup(rank, world_size)) for rank in range(world_size)]
    )


def validator(store: Store, subset: DecodedSubset, batch_tokens: int = 40) -> TranslationValidator:
    precision = Precision(name="float32", device="cpu", dtype=None)
    return TranslationValidator(
        [ValidationSet("valid", store, subset, shout, same)],
        bleu=same,
        batch_tokens=batch_tokens,
        precision=precision,
        objective=CrossEntropy(TeacherForcing(), 0.0),
    )


def test_nll_is_cross_entropy_per_token(parts: tuple[Store, TokenizerPair, TranslationModel]) -> None:
    store, tokenizers, model = parts
    total, tokens = 0.0, 0
    for sample in range(len(store)):
        src, tgt = store.ids("src")[sample].tolist(), store.ids("tgt")[sample].tolist()
        batch = collate([src], [tgt], [sample], tokenizers.src.vocab, tokenizers.tgt.vocab)
        with torch.no_grad():
            logits = model.output(model.decode_states(batch.source, batch.target))[0]
            total += float(F.cross_entropy(logits, batch.labels[0], reduction="sum"))
        tokens += len(tgt) + 1
    for batch_tokens in (1, 40, 1000):
        result = validate(validator(store, DecodedSubset.from_store(store, 0), batch_tokens), model)
        assert result.nll == pytest.approx(total / tokens, rel=1e-5)
        assert (result.bleu, result.sample) == (None, None)


def test_a_fixed_subset_is_decoded(parts: tuple[Store, TokenizerPair, TranslationModel]) -> None:
    store, _, model = parts
    subset = DecodedSubset.from_store(store, 4)
    assert subset == DecodedSubset.from_store(store, 4)
    assert subset.ref == subset.src == [store.text("src", sample) for sample in (0, 7, 15, 22)]
    result = validate(validator(store, subset), model)
    assert result.bleu == 4.0
    example = subset.src[subset.example_index]
    assert result.sample == (example, example.upper(), example)


@pytest.mark.parametrize("world_size", [2, 3, 99])
def test_the_result_does_not_depend_on_the_number_of_processes(
    parts: tuple[Store, TokenizerPair, TranslationModel], world_size: int
) -> None:
    store, _, model = parts
    whole = validator(store, DecodedSubset.from_store(store, 7))
    assert validate(whole, model, world_size) == validate(whole, model)


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("pool_sets", [True, False])
def test_each_set_has_its_own_values(parts, tmp_path: Path, pool_sets: bool, world_size: int) -> None:
    store, tokenizers, model = parts
    text = tmp_path / "other"
    text.write_text("so so\nline 3\n")
    binarise(text, text, tmp_path / "other.store", tokenizers, None)
    stores = {"own": store, "general": Store(tmp_path / "other.store")}
    subsets = {name: DecodedSubset.from_store(each, 2 + len(name)) for name, each in stores.items()}
    both = TranslationValidator(
        [ValidationSet(name, each, subsets[name], shout, same) for name, each in stores.items()],
        bleu=same,
        batch_tokens=40,
        precision=Precision(name="float32", device="cpu", dtype=None),
        objective=CrossEntropy(TeacherForcing(), 0.0),
        pool_sets=pool_sets,
    )
    alone = {name: validate(validator(each, subsets[name]), model) for name, each in stores.items()}
    result = validate(both, model, world_size)
    assert dict(result.nll_by_set) == pytest.approx({name: each.nll for name, each in alone.items()})
    if pool_sets:
        tokens = [each.stats("tgt").num_tokens + len(each) for each in stores.values()]
        sums = [each.nll * count for each, count in zip(alone.values(), tokens, strict=True)]
        assert (result.nll, result.bleu) == (pytest.approx(sum(sums) / sum(tokens)), 7.0)
    else:
        assert (result.nll, result.bleu) == (pytest.approx(alone["own"].nll), alone["own"].bleu)
        assert dict(result.calibration) == dict(alone["own"].calibration)


def test_validation_changes_neither_weights_nor_random_state(
    parts: tuple[Store, TokenizerPair, TranslationModel],
) -> None:
    store, _, model = parts
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    validate(validator(store, DecodedSubset.from_store(store, 4)), model)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in before.items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("count", "max_chosen", "expected"), [(5, 2, [0, 4]), (3, 9, [0, 1, 2]), (4, 0, []), (1, 1, [0])]
)
def test_evenly_spaced(count: int, max_chosen: int, expected: list[int]) -> None:
    assert evenly_spaced(count, max_chosen) == expected


def test_evenly_spaced_numbers_are_distinct() -> None:
    assert all(len(evenly_spaced(count, most)) == min(count, most) for count in range(1, 60) for most in range(1, 60))


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_diverged_model_has_a_bleu_of_0_and_does_not_end_the_training(parts, tmp_path, beam_size) -> None:
    store, tokenizers, model = parts
    write_all(tmp_path)
    recipe = toy(tmp_path, f"training.validation.beam_size={beam_size}", kind="rnn")
    validator = build_validator(recipe, [store], tokenizers, Precision(name="float32", device="cpu", dtype=None))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(3e38)
    result = validate(validator, model)
    assert not math.isfinite(result.nll)
    assert result.bleu == 0
    assert result.sample is not None
    assert result.sample[1] == ""


def test_bleu_is_that_of_the_language_of_the_set(parts, tmp_path) -> None:
    store, tokenizers, _ = parts
    write_all(tmp_path)
    valid = "{src: valid.en, tgt: valid.de, tgt_lang: zh}"
    recipe = toy(tmp_path, f"corpus.valid=[{valid}, {{src: valid.en, tgt: valid.de}}]", kind="rnn")
    precision = Precision(name="float32", device="cpu", dtype=None)
    validator = build_validator(recipe, [store, store], tokenizers, precision)
    hyp, ref = ["他 hat einen hund da ."], ["他有 hat einen hund da ."]
    of_set = [one.bleu(hyp, ref) for one in validator.sets]
    assert of_set == [sacrebleu.corpus_bleu(hyp, [ref], tokenize=name).score for name in ("zh", "13a")]
    assert of_set[0] != of_set[1]
    (alone,) = build_validator(toy(tmp_path, f"corpus.valid={valid}", kind="rnn"), [store], tokenizers, precision).sets
    assert alone.bleu(hyp, ref) == of_set[0]


@pytest.mark.parametrize("world_size", [1, 3])
def test_token_accuracy_and_calibration_are_those_of_the_whole_distribution(parts, world_size) -> None:
    store, tokenizers, model = parts
    result = validate(validator(store, DecodedSubset([], [], 0)), model, world_size)
    confidence, is_correct = [], []
    for number in range(len(store)):
        pair = [store.ids(side)[number].tolist() for side in ("src", "tgt")]
        batch = collate([pair[0]], [pair[1]], [number], tokenizers.src.vocab, tokenizers.tgt.vocab)
        with torch.no_grad():
            states = model.decode_states(batch.source, batch.target)[batch.loss_mask]
            prob = model.output(states).double().softmax(-1)
        confidence += prob.amax(1).tolist()
        is_correct += (prob.argmax(1) == batch.labels[batch.loss_mask]).tolist()
    expected = Calibration.of(confidence, is_correct)
    assert result.calibration["token_accuracy"] == expected.accuracy
    assert result.calibration["ece"] == pytest.approx(expected.expected_calibration_error, abs=1e-6)
    assert sum(row["tokens"] for row in result.calibration["reliability"]) == len(confidence)
    assert json.loads(json.dumps(result.fields()))["token_accuracy"] == expected.accuracy
    alone = validate(validator(store, DecodedSubset([], [], 0)), model)
    assert result.calibration == alone.calibration  # to the bit


@pytest.mark.parametrize("rank", [None, 2])
def test_a_transformer_is_decoded_by_the_native_backend_as_by_its_layers(parts, tmp_path, monkeypatch, rank) -> None:
    store, tokenizers, _ = parts
    write_all(tmp_path)
    recipe, size = toy(tmp_path), tokenizers.src.vocab.size
    torch.manual_seed(1)
    model = recipe.model.build(size, size).eval()
    if rank is not None:
        LoRAConfig(rank=rank).attach(model)
        for name, weight in model.named_parameters():
            if is_low_rank(name):
                torch.nn.init.normal_(weight)
    engine = validator_module._engine(recipe, model, compute_type="float32", device="cpu")
    assert isinstance(engine, NativeEngine) is bool(native().matches_layers)
    precision = Precision(name="float32", device="cpu", dtype=None)
    (valid_set,) = build_validator(recipe, [store], tokenizers, precision).sets
    ours = valid_set.translate(model, valid_set.subset.src)
    monkeypatch.setattr(validator_module, "unsupported_model_key", lambda config: "kind")
    assert ours == valid_set.translate(model, valid_set.subset.src)
    assert any(ours)
