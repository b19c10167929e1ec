"""A small training with all its parts real but the model and the data; also a program that a test can kill."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.corpus.order.loader import Position, Update
from mtkit.models.interface import TranslationModel
from mtkit.training.checkpoints.ema import MovingAverageConfig
from mtkit.training.config import TrainingConfig
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.learner import Learner, build_learner
from mtkit.training.loop import TrainingResult, train
from mtkit.training.monitoring.log import Log, Silent
from mtkit.training.monitoring.validation import Share, Validation
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.interface import Parts
from mtkit.training.run import Surroundings
from mtkit.training.seeding import derive

VOCAB, WIDTH = 13, 8


class ToyModel(TranslationModel):
    """Says something about the next piece from the present one and the mean of the source."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(WIDTH, VOCAB)
        self.output.weight = self.embed.weight

    def hidden(self, source: Source, target: Target) -> Tensor:
        real = source.real.unsqueeze(-1)
        mean = (self.embed(source.ids) * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
        return self.dropout(self.mix(self.embed(target.ids) + mean).tanh())

    def start(self, source, columns=None):
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
    """Ten updates a window, each a pure function of its position; samples in `poison` have a NaN loss."""

    micro_batches: int = 2
    drawn: list[Position] = field(default_factory=list)

    def updates(self, start: Position):
        window, update = start.window, start.update
        while True:
            self.drawn.append(Position(window, update))
            seeds = [derive(window, update, number) % 1_000_000 for number in range(self.micro_batches)]
            batches = [toy_batch(seed, 3 + seed % 3) for seed in seeds]
            update += 1
            if update == 10:
                window, update = window + 1, 0
            tokens = sum(int(batch.scored.sum()) for batch in batches)
            padded = sum(2 * batch.labels.numel() for batch in batches)
            sentences = sum(batch.num_sentences for batch in batches)
            yield Update(batches, Position(window, update), sentences, tokens, tokens, padded)


def toy_config(**keys) -> TrainingConfig:
    defaults = {
        "max_updates": 24,
        "validate_every": 6,
        "checkpoint_every": 4,
        "log_every": 3,
        "precision": "float32",
        "moving_average": MovingAverageConfig(decay=0.9),
    }
    return TrainingConfig(**{**defaults, **keys})


PIECES = TargetPieces(size=VOCAB, first=4, pad=0, unk=1, bos=2, eos=3)


class ToyGeneration:
    """Random translations of the length of their sources; more of the reference's pieces are better."""

    def sample(self, model, source, *, count, temperature):
        lengths = source.real.sum(1).tolist()
        return [[torch.randint(4, PIECES.size, (length,)).tolist() for _ in range(count)] for length in lengths]

    def reward(self, name, hyps, ref):
        return [len(set(hyp) & set(ref)) / max(len(set(ref)), 1) for hyp in hyps]


def parts_of(config: TrainingConfig, pieces: TargetPieces = PIECES) -> Parts:
    decoder_input = config.decoder_input.build(pieces)
    return Parts(decoder_input, config.label_smoothing, pieces, ToyGeneration())


class TeacherForced:
    """The simplest decoder input."""

    def __call__(self, model, batch):
        return model.hidden(batch.source, batch.target)[batch.scored]

    def set_update(self, update):
        pass


def toy_learner(config: TrainingConfig, dropout: float = 0.2) -> Learner:
    torch.manual_seed(config.seed)
    return build_learner(ToyModel(dropout), CrossEntropy(TeacherForced(), config.label_smoothing), config=config)


@torch.no_grad()
def toy_validate(model: TranslationModel, update: int) -> Validation:
    losses = model(toy_batch(7, 8), CrossEntropy(TeacherForced(), 0.0))
    torch.rand(update)  # a validation may draw as it likes
    return Validation(float(losses.sum) / losses.tokens, bleu=float(update % 7), sample=("a", "b", "c"))


@dataclass
class Judging:
    """Every rank does all of the validation."""

    validate: Callable[[TranslationModel, int], Validation]

    def share(self, model, update, ranks):
        self.found = self.validate(model, update)
        return Share([], 0, [])

    def join(self, shares):
        return self.found


def toy_train(
    folder: Path, config: TrainingConfig, *, loader=None, validate=toy_validate, learner=None, measure=""
) -> TrainingResult:
    judging = Judging(validate) if callable(validate) else validate
    with Log(folder / "log.jsonl", Silent()) as log:
        around = Surroundings(config=config, folder=folder, log=log, validate=judging, measure=measure)
        return train(learner or toy_learner(config), loader or ToyLoader(), around)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("begun", flush=True)
    toy_train(Path(sys.argv[1]), toy_config(max_updates=int(sys.argv[2])))
    print("ended", flush=True)
