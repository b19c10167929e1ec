"""The recipe's `training:` section. Every default is a choice for Multi30k and a Transformer of width 256."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from mtkit.training.checkpoints.config import CheckpointAverageConfig, EMAConfig, RetentionConfig
from mtkit.training.decoder_inputs.config import DecoderInputConfig, TeacherForcingConfig
from mtkit.training.key_types import Goal, Metric, OnNonFinite, PrecisionName
from mtkit.training.objectives.config import CrossEntropyConfig, ObjectiveConfig
from mtkit.training.optimisers.config import AdamConfig, OptimiserConfig
from mtkit.training.optimisers.schedule import LinearConfig, ScheduleConfig
from mtkit.training.robustness.divergence import DivergenceConfig

Positive = Annotated[int, Field(gt=0)]
ParameterGroupName = Annotated[str, Field(min_length=1)]


RESUMABLE = {"may_change_on_resume": True}  # field metadata: a training can be resumed with another value


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """Validation during training."""

    metric: Metric = "nll"  # of the best checkpoint, patience and plateau; nll is smooth, bleu is closer to quality
    sentences: Annotated[int, Field(ge=0)] = 200  # decoded for BLEU, evenly spread over the set; 0 decodes nothing
    # shell command that reads the files $SRC, $HYP and $REF and prints a number; see docs/training.md
    command: Annotated[str, Field(pattern=r"\S")] | None = None
    command_goal: Goal = "max"  # whether a larger (max) or a smaller (min) number is better
    beam_size: Positive = 1  # greedy ranks checkpoints as a beam does, in a fifth of the time

    def __post_init__(self) -> None:
        if self.metric == "command" and self.command is None:
            raise ValueError("metric: command needs the key command; set it, or metric to nll or bleu")
        if self.metric == "bleu" and not self.sentences:
            raise ValueError("metric: bleu needs sentences to decode; set sentences above 0, or metric to nll")
        if self.command is not None and not self.sentences:
            raise ValueError("command: needs sentences to decode; set sentences above 0")


@dataclass(frozen=True, kw_only=True)
class InitFromConfig:
    """Pre-trained model whose weights, or those of some of its parts, are the initial weights."""

    model: Path  # a model folder or a finished run
    parts: Annotated[list[ParameterGroupName], Field(min_length=1)] | None = None  # encoder, embeddings.src; null: all
    tokenizer: bool = True  # use its tokenizer too; false: the recipe's, whose tokens are matched by their strings


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig:
    """Files of word vectors in word2vec's text format (also fastText's .vec and GloVe's), plain or compressed."""

    src: Path | None = None  # source embedding
    tgt: Path | None = None  # target embedding

    def __post_init__(self) -> None:
        if self.src is None and self.tgt is None:
            raise ValueError("src: neither src nor tgt names a file; name one, or remove word_vectors")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Training of a model."""

    max_updates: Positive = 4000  # 18 epochs of Multi30k with the batches below; more gain little
    max_epochs: Annotated[float, Field(gt=0)] | None = None  # passes over the corpus, if fewer updates; null: no limit
    validate_every: Positive = field(default=500, metadata=RESUMABLE)  # updates; two epochs of Multi30k
    checkpoint_every: Positive = field(default=500, metadata=RESUMABLE)  # updates; a crash loses a few minutes at most
    log_every: Positive = field(default=50, metadata=RESUMABLE)  # updates; about ten seconds on two cores
    log_gradient_norms: bool = field(default=False, metadata=RESUMABLE)  # log also each module's gradient and change
    tensorboard: bool = field(default=False, metadata=RESUMABLE)  # write event files to the run folder's tensorboard/
    wandb: bool = field(default=False, metadata=RESUMABLE)  # log to Weights & Biases, offline into the run folder
    mlflow: bool = field(default=False, metadata=RESUMABLE)  # log to MLflow, in the run folder
    batch_tokens: Positive | Literal["auto"] = 4096  # sentences × longest side of a micro-batch; auto: memory's limit
    micro_batches: Positive = 1  # per update, over all ranks (gradient accumulation)
    compile: bool = field(default=False, metadata=RESUMABLE)  # torch.compile: takes a minute or two at each start
    # recompute layers in the backward pass: less memory, a third more time, the same gradient
    activation_checkpointing: bool = field(default=False, metadata=RESUMABLE)
    precision: PrecisionName = "auto"  # bf16 where the hardware has it: 2.5 times as fast
    # each of several processes holds the whole model (ddp) or a shard of every weight (fsdp)
    parallel: Literal["ddp", "fsdp"] = field(default="ddp", metadata=RESUMABLE)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1  # of initial weights, data order and dropout

    objective: ObjectiveConfig = field(default_factory=CrossEntropyConfig)
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1  # Vaswani et al. 2017, sec. 5.4
    decoder_input: DecoderInputConfig = field(default_factory=TeacherForcingConfig)
    optimiser: OptimiserConfig = field(default_factory=AdamConfig)
    schedule: ScheduleConfig = field(default_factory=LinearConfig)
    clip_norm: Annotated[float, Field(gt=0)] | None = 1.0  # of the whole gradient; null does not clip
    ema: EMAConfig | None = field(default_factory=EMAConfig)  # null: no EMA
    # null: the best checkpoint becomes the model
    checkpoint_average: CheckpointAverageConfig | None = field(default=None, metadata=RESUMABLE)

    validation: ValidationConfig = field(default_factory=ValidationConfig, metadata=RESUMABLE)
    patience: Positive | None = field(default=None, metadata=RESUMABLE)  # validations without improvement; null: no end
    keep: RetentionConfig = field(default_factory=RetentionConfig, metadata=RESUMABLE)

    # pre-trained models (fine-tuning), all weights or some parts; a path alone: all weights and the tokenizer
    init_from: Path | InitFromConfig | Annotated[list[InitFromConfig], Field(min_length=1)] | None = None
    word_vectors: WordVectorsConfig | None = None  # files of initial embeddings
    freeze: list[ParameterGroupName] = field(default_factory=list)  # parts not trained, as encoder or embeddings.src
    # of one call with all its stages, for clusters; the state is saved then
    max_hours: Annotated[float, Field(gt=0)] | None = field(default=None, metadata=RESUMABLE)
    # time of updates and validations after which training ends as at max_updates (--budget sets it); null: no limit
    budget_hours: Annotated[float, Field(gt=0)] | None = field(default=None, metadata=RESUMABLE)
    on_nonfinite: OnNonFinite = field(default="stop", metadata=RESUMABLE)  # a loss is not finite: stop, or skip it
    max_skips: Positive = field(default=10, metadata=RESUMABLE)  # in a row; then training stops, or rolls back
    # roll back to the best checkpoint with a lower learning rate; null: never
    on_divergence: DivergenceConfig | None = field(default=None, metadata=RESUMABLE)
    deterministic: bool = field(default=False, metadata=RESUMABLE)  # refuse nondeterministic kernels (a CPU has none)

    def __post_init__(self) -> None:
        if self.parallel == "ddp":
            return
        if self.optimiser.needs_whole_matrices:
            raise ValueError(
                f"parallel: fsdp shards matrices, but optimiser.kind {self.optimiser.kind} needs whole ones; use "
                f"one of {_shardable_optimisers()}, or parallel ddp"
            )
        if self.compile:
            raise ValueError(
                "parallel: fsdp gathers weights while a layer runs, which compiled code does not allow; set compile "
                "to false, or parallel to ddp"
            )
        if self.precision == "fp16":
            raise ValueError(
                "parallel: fsdp does not support the loss scaling that precision fp16 needs; use bf16, or parallel ddp"
            )

    @property
    def trackers(self) -> list[str]:
        """Names of the trackers that are used, see monitoring/trackers.py."""
        return [name for name, is_used in {"wandb": self.wandb, "mlflow": self.mlflow}.items() if is_used]

    @property
    def resolved_batch_tokens(self) -> int:
        """`batch_tokens` after `auto` has been replaced by a number.

        Raises:
            ValueError: it has not.
        """
        if self.batch_tokens == "auto":
            raise ValueError("training.batch_tokens is still auto")
        return self.batch_tokens

    @property
    def init_from_list(self) -> list[InitFromConfig]:
        """`init_from` as a list."""
        if isinstance(self.init_from, Path):
            return [InitFromConfig(model=self.init_from)]
        if isinstance(self.init_from, InitFromConfig):
            return [self.init_from]
        return self.init_from or []

    @property
    def tokenizer_from(self) -> Path | None:
        """The first model of `init_from` whose tokenizer is used; None if there is none."""
        return next((each.model for each in self.init_from_list if each.tokenizer), None)

    @property
    def keep_last(self) -> int:
        """Number of latest regular checkpoints that are retained, including those of the final average."""
        average = self.checkpoint_average
        return max(self.keep.last, average.count if average and average.which == "last" else 0)

    @property
    def keep_best(self) -> int:
        """Number of best checkpoints that are retained, including those of the final average."""
        average = self.checkpoint_average
        return max(self.keep.best, average.count if average and average.which == "best" else 0)

    @property
    def has_variable_passes(self) -> bool:
        """True if the number of forward passes of a micro-batch depends on its data."""
        return self.decoder_input.passes_depend_on_data or self.objective.passes_depend_on_data

    def with_updates_of_epochs(self, updates: int) -> TrainingConfig:
        """Return a configuration whose `max_updates` ends the training; `max_epochs` is None if that is longer.

        Args:
            updates: number of updates of `max_epochs`.
        """
        if updates < self.max_updates:
            return dataclasses.replace(self, max_updates=updates)
        return dataclasses.replace(self, max_epochs=None)

    def is_checkpoint_due(self, update: int) -> bool:
        """Return whether an update has a regular checkpoint."""
        return update % self.checkpoint_every == 0 or update == self.max_updates


def resumable_keys(config: TrainingConfig) -> frozenset[str]:
    """Return the keys of `training:` that may change when a training with this configuration is resumed.

    They include `max_updates` and `max_epochs` unless the schedule ends there. They do not include the keys of
    validation if the schedule depends on it.
    """
    keys = {each.name for each in dataclasses.fields(config) if each.metadata.get("may_change_on_resume", False)}
    if config.schedule.depends_on_validation:
        keys -= {"validate_every", "validation"}
    if not config.schedule.ends_at_max_updates:
        keys |= {"max_updates", "max_epochs"}
    return frozenset(keys)


def _shardable_optimisers() -> str:
    """List the kinds of optimisers that FSDP can shard."""
    classes = get_args(get_args(OptimiserConfig)[0])
    return ", ".join(cls.kind for cls in classes if not cls.needs_whole_matrices)
