"""Toy model, data and validation in a real training, and helpers to look at its results."""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.config import construct
from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.corpus.order.loader import DataPosition, UpdateData
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.config import EMAConfig, TrainingConfig
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.learner import Learner, build_learner
from mtkit.training.loop import TrainingResult, train
from mtkit.training.monitoring.log import Log, NullDisplay
from mtkit.training.monitoring.validation import Validation, ValidationShard
from mtkit.training.numerics import derive_seed
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.interface import ObjectiveInputs
from mtkit.training.run import TrainingRun

VOCAB, WIDTH = 13, 8


class ToyModel(TranslationModel):
    """Predicts the next token from the present one and the mean of the source."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(WIDTH, VOCAB)
        self.output.weight = self.embed.weight

    def decode_states(self, source: Source, target: Target) -> Tensor:
        real = source.real.unsqueeze(-1)
        mean = (self.embed(source.ids) * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
        return self.dropout(self.mix(self.embed(target.ids) + mean).tanh())

    def start(self, source):
        raise NotImplementedError

    def step(self, token, state):
        raise NotImplementedError


def toy_batch(seed: int, sentences: int, length: int = 5) -> Batch:
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, VOCAB, (sentences, length), generator=random)
    real = torch.arange(length) < torch.randint(2, length + 1, (sentences, 1), generator=random)
    pos = torch.arange(length).expand(sentences, length)
    labels = (ids + 1).clamp(max=VOCAB - 1)
    samples = torch.arange(sentences) + 100 * seed
    return Batch(Source(ids, real, pos), Target(ids, real, pos), labels, real, samples)


@dataclass
class ToyLoader:
    """Ten updates per window, each a function of its position; `positions` records those of the updates taken."""

    micro_batches: int = 2
    positions: list[DataPosition] = field(default_factory=list)

    def updates(self, start: DataPosition):
        window, update = start.window, start.update
        while True:
            self.positions.append(DataPosition(window, update))
            seeds = [derive_seed(window, update, number) % 1_000_000 for number in range(self.micro_batches)]
            batches = [toy_batch(seed, 3 + seed % 3) for seed in seeds]
            update += 1
            if update == 10:
                window, update = window + 1, 0
            tokens = sum(int(batch.loss_mask.sum()) for batch in batches)
            padded = sum(2 * batch.labels.numel() for batch in batches)
            sentences = sum(batch.num_sentences for batch in batches)
            yield UpdateData(batches, DataPosition(window, update), sentences, tokens, tokens, padded)


def toy_config(**keys) -> TrainingConfig:
    defaults = {
        "max_updates": 24,
        "validate_every": 6,
        "checkpoint_every": 4,
        "log_every": 3,
        "precision": "float32",
        "ema": EMAConfig(decay=0.9),
    }
    return TrainingConfig(**{**defaults, **keys})


VOCAB_IDS = TargetVocabIds(size=VOCAB, first_text_id=4, end_text_id=VOCAB, pad=0, unk=1, bos=2, eos=3)


class ToyTranslationSampler:
    """Random translations of the length of their sources; the reward is the share of the reference's tokens."""

    def sample(self, model, source, *, count, temperature):
        lengths = source.real.sum(1).tolist()
        return [[torch.randint(4, VOCAB_IDS.size, (length,)).tolist() for _ in range(count)] for length in lengths]

    def reward(self, name, hyps, ref):
        return [len(set(hyp) & set(ref)) / max(len(set(ref)), 1) for hyp in hyps]


def objective_inputs_of(config: TrainingConfig, vocab_ids: TargetVocabIds = VOCAB_IDS) -> ObjectiveInputs:
    decoder_input = construct(config.decoder_input, vocab_ids)
    return ObjectiveInputs(decoder_input, config.label_smoothing, vocab_ids, ToyTranslationSampler())


def objective_inputs(decoder_input: Any, smoothing: float, **others: Any) -> ObjectiveInputs:
    return ObjectiveInputs(decoder_input, smoothing, VOCAB_IDS, ToyTranslationSampler(), **others)


class TeacherForced:
    """Teacher forcing, written out."""

    def __call__(self, model, batch):
        return model.decode_states(batch.source, batch.target)[batch.loss_mask]

    def set_update(self, update):
        pass


class PoisonedCrossEntropy(CrossEntropy):
    """Cross-entropy that is NaN at the given updates, once for each time that an update is listed."""

    def __init__(self, *updates):
        super().__init__(TeacherForced(), 0.1)
        self.updates = list(updates)
        self.update = 0

    def set_update(self, update):
        self.update = update

    def __call__(self, model, batch):
        losses = super().__call__(model, batch)
        if self.update in self.updates:
            self.updates.remove(self.update)
            return Losses(losses.sum * math.nan, losses.tokens)
        return losses


def toy_learner(config: TrainingConfig, dropout: float = 0.2, objective=None) -> Learner:
    torch.manual_seed(config.seed)
    objective = objective or CrossEntropy(TeacherForced(), config.label_smoothing)
    return build_learner(ToyModel(dropout), objective, config=config)


@torch.no_grad()
def toy_validate(model: TranslationModel, update: int) -> Validation:
    losses = model(toy_batch(7, 8), CrossEntropy(TeacherForced(), 0.0))
    torch.rand(update)  # random numbers that a validation draws must not change the training
    return Validation(float(losses.sum) / losses.tokens, bleu=float(update % 7), sample=("a", "b", "c"))


@dataclass
class UnshardedValidator:
    """Every rank computes the whole validation."""

    validate: Callable[[TranslationModel, int], Validation]

    def validate_shard(self, model, update, ranks):
        self.result = self.validate(model, update)
        return ValidationShard([], [], [])

    def merge_shards(self, shards):
        return self.result


def toy_train(
    folder: Path, config: TrainingConfig, *, loader=None, validate=toy_validate, learner=None, fingerprint=""
) -> TrainingResult:
    """Train in a run folder, resuming what is there; `validate` is a function or a ShardedValidator."""
    validator = UnshardedValidator(validate) if callable(validate) else validate
    learner = learner or toy_learner(config)
    with Log(folder / "log.jsonl", NullDisplay()) as log:
        run = TrainingRun(
            learner, config=config, folder=folder, log=log, validator=validator, validation_fingerprint=fingerprint
        )
        return train(run, loader or ToyLoader())


def signal_at(count: int, number: int) -> ToyLoader:
    """A loader that sends this process a signal when it yields its `count`-th update."""

    class SignallingLoader(ToyLoader):
        def updates(self, start):
            for yielded, update in enumerate(super().updates(start), 1):
                if yielded == count:
                    os.kill(os.getpid(), number)
                yield update

    return SignallingLoader()


def events(folder: Path, name: str) -> list[dict]:
    """The logged events of one name."""
    records = map(json.loads, (folder / "log.jsonl").read_text().strip().split("\n"))
    return [record for record in records if record["event"] == name]


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """True if two sets of tensors are the same to the bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
