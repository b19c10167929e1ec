"""The recipe's `training:` section. Every default is a choice for Multi30k and a Transformer of width 256."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mtkit.training.checkpoints.averaging import CheckpointAverageConfig
from mtkit.training.checkpoints.ema import MovingAverageConfig
from mtkit.training.checkpoints.writer import KeepConfig
from mtkit.training.decoder_inputs import DecoderInputConfig
from mtkit.training.decoder_inputs.parallel_sampling import ParallelSamplingConfig
from mtkit.training.decoder_inputs.scheduled_sampling import ScheduledSamplingConfig
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcingConfig
from mtkit.training.init_config import InitFromConfig, Part, WordVectorsConfig
from mtkit.training.monitoring.validation import Metric
from mtkit.training.objectives import ObjectiveConfig
from mtkit.training.objectives.cross_entropy import CrossEntropyConfig
from mtkit.training.optimisers import OptimiserConfig
from mtkit.training.optimisers.schedule import ENDING_KINDS, LinearConfig, ScheduleConfig
from mtkit.training.optimisers.torch_optimisers import AdamConfig
from mtkit.training.precision import PrecisionName
from mtkit.training.robustness.divergence import DivergenceConfig
from mtkit.training.robustness.nonfinite import OnNonFinite

Positive = Annotated[int, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """How the model is judged while it trains."""

    metric: Metric = "nll"  # what best, patience and plateau look at; nll is smooth, bleu is what users feel
    sentences: Annotated[int, Field(ge=0)] = 200  # decoded for BLEU, spread over the valid set; 0 decodes nothing
    beam_size: Positive = 1  # greedy ranks checkpoints as a beam does, at a fifth of the time

    def __post_init__(self) -> None:
        if self.metric == "bleu" and not self.sentences:
            raise ValueError("metric: bleu needs sentences to decode; set sentences above 0, or metric to nll")


NEED_WHOLE = frozenset({"adafactor", "muon"})  # optimisers that look at rows and columns, or at a matrix as such


# objectives and decoder inputs that go on as long as their sentences ask
VARYING = frozenset({"scheduled_sampling", "parallel_sampling", "confidence_aware", "minimum_risk"})


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained."""

    max_updates: Positive = 4000  # 18 passes over Multi30k with the batches below; little is gained after
    validate_every: Positive = 500  # updates; two passes over Multi30k
    checkpoint_every: Positive = 500  # updates; a few minutes of work are all that a power cut can take
    log_every: Positive = 50  # updates; some ten seconds on two cores
    log_parts: bool = False  # also, for each part of the model, its gradient and how far the update moved it
    tensorboard: bool = False  # also write event files for TensorBoard, into the run folder's tensorboard/
    batch_tokens: Positive | Literal["auto"] = 4096  # sentences × longest side of a micro-batch; auto: as memory allows
    micro_batches: Positive = 1  # per update, over all ranks (gradient accumulation)
    compile: bool = False  # have torch make code of the layers for this machine: takes a minute or two, once a call
    activation_checkpointing: bool = False  # compute layers twice: less memory, a third more time, the same gradient
    precision: PrecisionName = "auto"  # bf16 where the hardware has it: 2.5 times as fast, same quality
    parallel: Literal["ddp", "fsdp"] = "ddp"  # of several processes each has the whole model, or a part of all weights
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1  # of everything: weights, order, dropout

    objective: ObjectiveConfig = field(default_factory=CrossEntropyConfig)
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1  # Vaswani et al. 2017, sec. 5.4
    decoder_input: DecoderInputConfig = field(default_factory=TeacherForcingConfig)
    optimiser: OptimiserConfig = field(default_factory=AdamConfig)
    schedule: ScheduleConfig = field(default_factory=LinearConfig)
    clip_norm: Annotated[float, Field(gt=0)] | None = 1.0  # of the whole gradient; null does not clip
    moving_average: MovingAverageConfig | None = field(default_factory=MovingAverageConfig)  # null: none
    average: CheckpointAverageConfig | None = None  # null: the best checkpoint becomes the model

    validation: ValidationConfig = field(default_factory=ValidationConfig)
    patience: Positive | None = None  # validations without a better one before stopping; null: never stops early
    keep: KeepConfig = field(default_factory=KeepConfig)

    # models whose weights, or parts of them, are the beginning (fine-tuning); a path alone: all, with its tokenizer
    init_from: Path | InitFromConfig | Annotated[list[InitFromConfig], Field(min_length=1)] | None = None
    word_vectors: WordVectorsConfig | None = None  # files that embeddings begin with
    freeze: list[Part] = field(default_factory=list)  # parts that stay as they begin, such as encoder or embeddings.src
    max_hours: Annotated[float, Field(gt=0)] | None = None  # of one call with all its stages, for clusters: then saved
    on_nonfinite: OnNonFinite = "stop"  # a loss that is not finite: stop, or leave that batch out
    max_skips: Positive = 10  # batches left out in a row before training stops all the same, or goes back
    on_divergence: DivergenceConfig | None = None  # go back to the best checkpoint, with a lower rate; null: never
    deterministic: bool = False  # refuse kernels whose sums depend on chance (on a GPU; on a CPU there are none)

    def __post_init__(self) -> None:
        if self.parallel == "ddp":
            return
        if self.optimiser.kind in NEED_WHOLE:
            raise ValueError(
                f"parallel: fsdp cuts matrices, and optimiser.kind {self.optimiser.kind} needs whole ones; take adam, "
                "adamw, lion or sgd, or parallel ddp"
            )
        if self.compile:
            raise ValueError(
                "parallel: fsdp brings weights in while a layer runs, where compiled code would not have "
                "them; set compile to false, or parallel to ddp"
            )
        if self.precision == "fp16":
            raise ValueError("parallel: fsdp scales no losses, which precision fp16 needs; take bf16, or parallel ddp")

    @property
    def places(self) -> int:
        """`batch_tokens`, once `auto` has become a number.

        Raises:
            ValueError: it has not.
        """
        if self.batch_tokens == "auto":
            raise ValueError("training.batch_tokens is still auto")
        return self.batch_tokens

    @property
    def beginnings(self) -> list[InitFromConfig]:
        """`init_from` in its longest form."""
        if isinstance(self.init_from, Path):
            return [InitFromConfig(model=self.init_from)]
        if isinstance(self.init_from, InitFromConfig):
            return [self.init_from]
        return self.init_from or []

    @property
    def tokenizer_from(self) -> Path | None:
        """The model whose tokenizer is taken: the first of `init_from` that gives its own."""
        return next((each.model for each in self.beginnings if each.tokenizer), None)

    @property
    def kept_last(self) -> int:
        """How many of the last regular checkpoints must stay."""
        needed = self.average.checkpoints if self.average and self.average.of == "last" else 0
        return max(self.keep.last, needed)

    @property
    def kept_best(self) -> int:
        """How many of the best checkpoints must stay."""
        needed = self.average.checkpoints if self.average and self.average.of == "best" else 0
        return max(self.keep.best, needed, 1)

    def truth_rate(self, update: int) -> float | None:
        """How likely the decoder reads the truth at an update; None where no schedule says so."""
        if isinstance(self.decoder_input, ScheduledSamplingConfig | ParallelSamplingConfig):
            return self.decoder_input.decay.rate(update - 1)
        return None

    @property
    def varies(self) -> bool:
        """Whether a micro-batch decides how often the model is run on it."""
        return self.decoder_input.kind in VARYING or self.objective.kind in VARYING

    def is_regular(self, update: int) -> bool:
        """Whether a checkpoint is due at this update whatever happens."""
        return update % self.checkpoint_every == 0 or update == self.max_updates


HARMLESS = frozenset(
    {
        "validate_every",
        "checkpoint_every",
        "log_every",
        "log_parts",
        "tensorboard",
        "validation",
        "patience",
        "average",
        "keep",
        "max_hours",
        "on_nonfinite",
        "max_skips",
        "on_divergence",
        "deterministic",
        "activation_checkpointing",
        "compile",
        "parallel",
    }
)  # keys that may change when a training is continued, apart from those that `harmless_keys` adds or takes


def harmless_keys(config: TrainingConfig) -> frozenset[str]:
    """The keys of `training:` that may change when a training with this configuration is continued.

    `max_updates` too where the schedule does not end there. A plateau makes the rate depend on validation, so that
    `validate_every` and `validation` are then not harmless.
    """
    kind: Literal["plateau"] | str = config.schedule.kind
    without = frozenset({"validate_every", "validation"}) if kind == "plateau" else frozenset()
    return (HARMLESS - without) | (frozenset() if kind in ENDING_KINDS else frozenset({"max_updates"}))
