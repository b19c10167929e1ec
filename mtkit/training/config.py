"""The recipe's `training:` section. Every default is a choice for Multi30k and a Transformer of width 256."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from mtkit.config import Limits, config
from mtkit.errors import RecipeError
from mtkit.training.decoder_inputs.config import DecoderInputConfig, TeacherForcingConfig
from mtkit.training.objectives.config import CrossEntropyConfig, ObjectiveConfig
from mtkit.training.optimisers.config import AdamConfig, OptimiserConfig
from mtkit.training.optimisers.schedule import LinearConfig, ScheduleConfig

if TYPE_CHECKING:
    from torch import nn

Metric = Literal["nll", "bleu", "command"]
Goal = Literal["max", "min"]
OnNonFinite = Literal["stop", "skip"]
PrecisionName = Literal["auto", "float32", "bf16", "fp16"]
TrackerName = Literal["tensorboard", "wandb", "mlflow"]
Positive = Annotated[int, Limits(gt=0)]
Factor = Annotated[float, Limits(gt=1)]

PartName = Annotated[str, Limits(min_length=1)]

RESUMABLE = {"may_change_on_resume": True}  # field metadata: a training can be resumed with another value


@config
class ValidationConfig:
    """Validation during training."""

    # Metric that decides on the best checkpoint, patience and the plateau schedule. Default: nll, which is smooth; bleu
    # is closer to quality.
    metric: Metric = "nll"
    # Number of sentences, evenly spread over the set, that are translated for BLEU, to at most twice the tokens of the
    # longest reference and 10; 0 translates none. Default: enough to see progress, in seconds.
    sentences: Annotated[int, Limits(ge=0)] = 200
    # Whether several validation sets count as one text; otherwise the first one decides, and the others are watched.
    # Default: true, since a multilingual model has a set for each direction.
    pool_sets: bool = True
    # Shell command that reads the files $SRC, $HYP and $REF and prints a number; see docs/training.md. Default: null
    # has none.
    command: Annotated[str, Limits(pattern=r"\S")] | None = None
    # Whether a larger (max) or a smaller (min) number of the command is better. Default: max, as of most metrics.
    command_goal: Goal = "max"
    # Beam size of these translations. Default: greedy search ranks checkpoints as a beam does, in a fifth of the time.
    beam_size: Positive = 1

    def __post_init__(self) -> None:
        if self.metric == "command" and self.command is None:
            raise ValueError("metric: command needs the key command; set it, or metric to nll or bleu")
        if self.metric == "bleu" and not self.sentences:
            raise ValueError("metric: bleu needs sentences to decode; set sentences above 0, or metric to nll")
        if self.command is not None and not self.sentences:
            raise ValueError("command: needs sentences to decode; set sentences above 0")


@config
class InitFromConfig:
    """Pre-trained model whose weights, or those of some of its parts, are the initial weights."""

    # Model folder or finished run.
    model: Path
    # Parts whose weights are used, such as encoder or embeddings.src. Default: null is all.
    parts: Annotated[list[PartName], Limits(min_length=1)] | None = None
    # Whether its tokenizer is used too; otherwise the recipe's, whose tokens are matched by their strings. Default:
    # true, since the weights belong to its tokens.
    tokenizer: bool = True


@config
class WordVectorsConfig:
    """Files of word vectors in word2vec's text format (also fastText's .vec and GloVe's), plain or compressed."""

    # File of source embeddings. Default: null leaves them random.
    src: Path | None = None
    # File of target embeddings. Default: null leaves them random.
    tgt: Path | None = None

    def __post_init__(self) -> None:
        if self.src is None and self.tgt is None:
            raise ValueError("src: neither src nor tgt names a file; name one, or remove word_vectors")


class AdapterConfigBase:
    """Capabilities of an adapter's configuration."""

    needs_low_rank: ClassVar[bool] = False  # the model's projections get updates


@config
class LoRAConfig(AdapterConfigBase):
    """Updates of low rank beside the frozen matrices of projections; merged into them in the finished model.

    Hu et al. 2022, https://arxiv.org/abs/2106.09685 .
    """

    needs_low_rank: ClassVar[bool] = True

    kind: Literal["lora"] = "lora"
    # Rank of the updates. Default: sec. 7.2: larger ones gain little.
    rank: Annotated[int, Limits(gt=0)] = 8
    # Factor of the updates, divided by the rank. Default: twice the rank, as most trainings have it.
    alpha: Annotated[float, Limits(gt=0)] = 16.0
    # Parts whose projections have updates, such as decoder or encoder.*.attention. Default: all but the output
    # projection; updates of all layers keep most of the gain.
    layers: Annotated[list[PartName], Limits(min_length=1)] = field(default_factory=lambda: ["*"])

    def attach(self, model: nn.Module) -> None:
        """Give the projections of a model updates, and freeze all other weights.

        Raises:
            RecipeError: a part is not in the model, or has no projection.
        """
        from torch import nn

        from mtkit.layers.projections import LowRankProjection, Projection
        from mtkit.training.weights import select_parameters

        chosen = select_parameters(model, self.layers, key="training.adapter.layers")
        names = [
            name
            for name, module in model.named_modules()
            if isinstance(module, Projection) and f"{name}.weight" in chosen and name != "output"
        ]
        if not names:
            raise RecipeError(
                f"training.adapter.layers: no projection is in {', '.join(self.layers)}; the output projection and "
                "embeddings have no updates. Name other parts, such as encoder and decoder"
            )
        model.requires_grad_(False)
        for name in names:
            parent, _, attribute = name.rpartition(".")
            outer = model.get_submodule(parent)
            projection = outer.get_submodule(attribute)
            if not isinstance(projection, nn.Linear):
                raise ValueError(f"{name} is no projection")
            setattr(outer, attribute, LowRankProjection(projection, self.rank, self.alpha / self.rank))


@config
class BiasAdapterConfig(AdapterConfigBase):
    """Training of the biases alone (Ben Zaken et al. 2022, https://arxiv.org/abs/2106.10199)."""

    kind: Literal["bias"] = "bias"

    def attach(self, model: nn.Module) -> None:
        """Freeze all weights but biases."""
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.endswith("bias"))


@config
class NormAdapterConfig(AdapterConfigBase):
    """Training of the gains and biases of norms alone (Zhao et al. 2023, https://arxiv.org/abs/2312.11420)."""

    kind: Literal["norm"] = "norm"

    def attach(self, model: nn.Module) -> None:
        """Freeze all weights but those of norms."""
        model.requires_grad_(False)
        for module in model.modules():
            by_name = dict(module.named_parameters(recurse=False))
            if "weight" in by_name and by_name["weight"].dim() == 1:  # a vector: the gain of a norm
                for parameter in by_name.values():
                    parameter.requires_grad_(True)


AdapterConfig = LoRAConfig | BiasAdapterConfig | NormAdapterConfig


@config
class EMAConfig:
    """Exponential moving average of the weights; validation and the final model use it."""

    # Weight of the old average at an update. Default: a horizon of 500 updates, an eighth of 4,000.
    decay: Annotated[float, Limits(gt=0, lt=1)] = 0.998
    # Number of updates between two steps of the average. Default: averaging at every update costs 3% of the time.
    update_every: Annotated[int, Limits(gt=0)] = 4


@config
class CheckpointAverageConfig:
    """The final model is the mean of several checkpoints (Vaswani et al. 2017, sec. 6.1: the last 5, or 20)."""

    # Number of checkpoints that are averaged. Default: Vaswani et al. 2017, sec. 6.1.
    count: Annotated[int, Limits(gt=1)] = 5
    # Which checkpoints are averaged: the last ones, or the best by `training.validation.metric`. Default: last, as in
    # the paper.
    which: Literal["last", "best"] = "last"


@config
class RetentionConfig:
    """Checkpoints that are retained, besides those that `training.checkpoint_average` needs."""

    # Number of the latest checkpoints that are kept. Default: two, so that damage to the newest costs little.
    last: Annotated[int, Limits(gt=0)] = 2
    # Number of the best checkpoints by `training.validation.metric` that are kept. Default: 1, which becomes the model.
    best: Annotated[int, Limits(gt=0)] = 1
    # Number of updates whose multiples keep their checkpoint for ever. Default: null has none, since checkpoints are
    # large.
    every: Annotated[int, Limits(gt=0)] | None = None


@config
class DivergenceConfig:
    """Criteria of divergence, and the rollback to the best checkpoint that follows it (see LossTrend).

    The rollback restores weights and optimiser. Data and schedule continue from the present update, so that the same
    weights do not meet the same batches again.
    """

    # Multiple of its moving average above which a loss is too high. Default: above the noise of batches, which is
    # smaller.
    loss_factor: Factor = 1.5
    # Updates in a row with too high a loss that are a divergence. Default: a single one may be a hard batch.
    updates: Annotated[int, Limits(gt=0)] = 50
    # Multiple of the best validation nll above which a validation is a divergence by itself. Default: overfitting alone
    # is slower.
    nll_factor: Factor = 1.5
    # Factor of the learning rate after a rollback. Default: half, so that a few rollbacks find a stable rate.
    lr_shrink: Annotated[float, Limits(gt=0, lt=1)] = 0.5
    # Number of rollbacks; the next divergence stops the training. Default: after three, an eighth of the rate, the rate
    # is not the reason.
    max_recoveries: Annotated[int, Limits(gt=0)] = 3


@config
class TrainingConfig:
    """Training of a model."""

    # Number of updates at which training ends. Default: 18 epochs of Multi30k with the default batches; more gain
    # little.
    max_updates: Positive = 4000
    # Passes over the corpus at which training ends, if that is earlier than max_updates. Default: null has no such
    # limit.
    max_epochs: Annotated[float, Limits(gt=0)] | None = None
    # Updates between two validations. Default: two epochs of Multi30k.
    validate_every: Positive = field(default=500, metadata=RESUMABLE)
    # Updates between two checkpoints. Default: a crash loses a few minutes at most.
    checkpoint_every: Positive = field(default=500, metadata=RESUMABLE)
    # Updates between two lines of the log. Default: about ten seconds on two cores.
    log_every: Positive = field(default=50, metadata=RESUMABLE)
    # Whether the log has each module's gradient and change. Default: false; it costs time and is for debugging.
    log_gradient_norms: bool = field(default=False, metadata=RESUMABLE)
    # Programs that show the training beside the log: tensorboard (event files), wandb (offline) and mlflow, each in the
    # run folder. Default: none, since each needs a package of its own.
    trackers: list[TrackerName] = field(default_factory=list, metadata=RESUMABLE)
    # Size of a micro-batch, sentences times longest side; auto is the largest that fits into memory. Default: about 130
    # sentences of Multi30k, which fit into any memory.
    batch_tokens: Positive | Literal["auto"] = 4096
    # Micro-batches of an update, over all processes (gradient accumulation). Default: 1, the fastest.
    micro_batches: Positive = 1
    # Whether layers run through torch.compile. Default: false; it takes a minute or two at each start.
    compile: bool = field(default=False, metadata=RESUMABLE)
    # Whether layers are computed again in the backward pass, with the same gradient: less memory, a third more time.
    # Default: false, since most models fit.
    activation_checkpointing: bool = field(default=False, metadata=RESUMABLE)
    # Number format of the forward pass; weights are float32 always. Default: auto is bf16 where the hardware has it:
    # 2.5 times as fast, of the same quality.
    precision: PrecisionName = "auto"
    # Whether each of several processes holds the whole model (ddp) or a shard of every weight (fsdp). Default: ddp, the
    # faster one for models that fit.
    parallel: Literal["ddp", "fsdp"] = field(default="ddp", metadata=RESUMABLE)
    # Seed of initial weights, data order and dropout. Default: any number will do.
    seed: Annotated[int, Limits(ge=0, lt=2**63)] = 1

    # Loss of the training. Default: cross_entropy, with which nearly all models are trained.
    objective: ObjectiveConfig = field(default_factory=CrossEntropyConfig)
    # Share of the target distribution that is uniform. Default: Vaswani et al. 2017, sec. 5.4.
    label_smoothing: Annotated[float, Limits(ge=0, lt=1)] = 0.1
    # Tokens that the decoder reads in training. Default: teacher_forcing, the true ones: one pass over all positions.
    decoder_input: DecoderInputConfig = field(default_factory=TeacherForcingConfig)
    # Optimiser and its peak learning rate. Default: adam, as in the Transformer paper.
    optimiser: OptimiserConfig = field(default_factory=AdamConfig)
    # Course of the learning rate. Default: linear, on a small corpus the best use of a known number of updates.
    schedule: ScheduleConfig = field(default_factory=LinearConfig)
    # Largest norm of the gradient of all weights together; a larger gradient is scaled down, and null does not clip.
    # Default: 1, which acts in the first updates and against outliers.
    clip_norm: Annotated[float, Limits(gt=0)] | None = 1.0
    # Average of the weights that validation and the final model use; null has none. Default: on, as a training may end
    # while the rate is high; after a decay to zero no gain was found (docs/evidence.md), and it costs 3% of the time.
    ema: EMAConfig | None = field(default_factory=EMAConfig)
    # Average of checkpoints as the final model. Default: null, the best checkpoint becomes the model; `ema` averages
    # already.
    checkpoint_average: CheckpointAverageConfig | None = field(default=None, metadata=RESUMABLE)

    # Metric and translations of the validations. Default: nll, and a few translations for BLEU.
    validation: ValidationConfig = field(default_factory=ValidationConfig, metadata=RESUMABLE)
    # Validations without improvement after which training ends. Default: null has no such end; the schedule is made for
    # max_updates.
    patience: Positive | None = field(default=None, metadata=RESUMABLE)
    # Checkpoints that are kept. Default: what resuming and the final model need.
    keep: RetentionConfig = field(default_factory=RetentionConfig, metadata=RESUMABLE)

    # Pre-trained models to fine-tune, with all their weights or some parts; a path alone is all weights and the
    # tokenizer. Default: null starts from random weights.
    init_from: Path | InitFromConfig | Annotated[list[InitFromConfig], Limits(min_length=1)] | None = None
    # Files of initial embeddings. Default: null starts from random embeddings.
    word_vectors: WordVectorsConfig | None = None
    # Parts that are not trained, such as encoder or embeddings.src. Default: none.
    freeze: list[PartName] = field(default_factory=list)
    # Few weights that are trained, while all others stay as `init_from` has them; the folder `adapter` of the run has
    # them alone, and its model has them merged. Default: null trains all weights, which learns more.
    adapter: AdapterConfig | None = None
    # Hours of one call with all its stages, for clusters; the state is saved then. Default: null has no such limit.
    max_hours: Annotated[float, Limits(gt=0)] | None = field(default=None, metadata=RESUMABLE)
    # Hours from the start of the command to the written model, after which training ends as at max_updates; --budget
    # sets it, and the schedule follows the time. Default: null has no such limit.
    budget_hours: Annotated[float, Limits(gt=0)] | None = field(default=None, metadata=RESUMABLE)
    # Updates that budget_hours are expected to have; what a recipe counts in updates, such as warm-up and validations,
    # is spread over the time as over this number. Default: null is max_updates; --budget measures it.
    budget_updates: Positive | None = None
    # Whether training stops at a loss that is not finite, or skips the update. Default: stop, since such a loss is a
    # fault.
    on_nonfinite: OnNonFinite = field(default="stop", metadata=RESUMABLE)
    # Skipped updates in a row after which training stops, or rolls back. Default: more are no accident.
    max_skips: Positive = field(default=10, metadata=RESUMABLE)
    # Rolling back to the best checkpoint with a lower learning rate. Default: null never does.
    on_divergence: DivergenceConfig | None = field(default=None, metadata=RESUMABLE)
    # Whether nondeterministic kernels are refused; a CPU has none. Default: false, since such kernels are faster on a
    # GPU.
    deterministic: bool = field(default=False, metadata=RESUMABLE)

    def __post_init__(self) -> None:
        if self.parallel == "ddp":
            return
        if self.optimiser.needs_whole_matrices:
            shardable = [kind.kind for kind in get_args(OptimiserConfig) if not kind.needs_whole_matrices]
            raise ValueError(
                f"parallel: fsdp shards matrices, but optimiser.kind {self.optimiser.kind} needs whole ones; use "
                f"one of {', '.join(shardable)}, or parallel ddp"
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
    def resolved_batch_tokens(self) -> int:
        """`batch_tokens` after `auto` has been replaced by a number.

        Raises:
            ValueError: it has not.
        """
        if self.batch_tokens == "auto":
            raise ValueError("training.batch_tokens is still auto")
        return self.batch_tokens

    @property
    def scheduled_updates(self) -> int:
        """Updates of the schedule, which `max_updates` or the end of `budget_hours` completes."""
        return min(self.max_updates, self.budget_updates or self.max_updates)

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


def resumable_keys(config: TrainingConfig) -> frozenset[str]:
    """Return the keys of `training:` that may change when a training with this configuration is resumed.

    They include `max_updates`, `max_epochs` and `budget_updates` unless the schedule ends there. They do not include
    the keys of validation if the schedule depends on it.
    """
    keys = {each.name for each in dataclasses.fields(config) if each.metadata.get("may_change_on_resume", False)}
    if config.schedule.depends_on_validation:
        keys -= {"validate_every", "validation"}
    if not config.schedule.ends_at_max_updates:
        keys |= {"max_updates", "max_epochs", "budget_updates"}
    return frozenset(keys)
