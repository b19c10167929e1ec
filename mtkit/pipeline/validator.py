"""Validation during training, nll and BLEU on a fixed subset that is decoded, and translations sampled for a loss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import attrgetter, itemgetter

import numpy as np
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.corpus.config import CorpusFiles
from mtkit.corpus.noise import Corpus, DenoisingCorpus, get_store
from mtkit.corpus.order.batch import Source
from mtkit.corpus.order.loader import eval_batches
from mtkit.corpus.store import SIDES, Store
from mtkit.errors import NonFiniteError, RecipeError
from mtkit.evaluation.calibration import Calibration
from mtkit.evaluation.score import bleu_of
from mtkit.evaluation.tokenizer_choice import choose_tokenizer
from mtkit.inference.native_search import NativeModel
from mtkit.inference.support import ComputeType, cpu_compute_type, unsupported_model_key
from mtkit.layers.projections import merge_low_rank
from mtkit.models.interface import Objective, TranslationModel
from mtkit.native.library import native
from mtkit.pipeline.builders import corpora_with_noise
from mtkit.recipe.sections import Recipe
from mtkit.search.config import LengthLimit, SamplingConfig, SearchConfig
from mtkit.search.interface import SearchRequest
from mtkit.text.lines import without_compression
from mtkit.text.source_prefix import SourcePrefix
from mtkit.text.subword.tokenizer import Side, Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.chunked_loss import TokenPredictions, record_predictions
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.distributed import SINGLE_PROCESS, ProcessGroup
from mtkit.training.monitoring.validation import Validation, ValidationCommand, ValidationShard, unshard
from mtkit.training.numerics import Precision
from mtkit.training.objectives.config import RewardName
from mtkit.training.objectives.cross_entropy import CrossEntropy, MaskedLM
from mtkit.training.oom import explain_oom
from mtkit.training.weights import weights
from mtkit.translate.engine import Engine, NativeEngine, special_ids
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.translator import Translator

TranslateFn = Callable[[TranslationModel, Sequence[str]], list[str]]
CommandFn = Callable[[Sequence[str], Sequence[str], Sequence[str]], float | None]  # None: it failed
BleuFn = Callable[[Sequence[str], Sequence[str]], float]  # of hypotheses and references, 0 to 100


@dataclass(frozen=True)
class DecodedSubset:
    """The sentences of the validation set that are decoded.

    Attributes:
        example_index: index of a sentence of median length, which is displayed with its translation.
    """

    src: list[str]
    ref: list[str]
    example_index: int

    @classmethod
    def from_store(cls, store: Store, sentences: int) -> DecodedSubset:
        """Choose at most `sentences` sentences, evenly spaced in the validation set and the same in every call."""
        samples = evenly_spaced(len(store), sentences)
        src = [store.text("src", sample) for sample in samples]
        by_length = sorted(range(len(src)), key=lambda index: len(src[index]))
        return cls(
            src=src,
            ref=[store.text("tgt", sample) for sample in samples],
            example_index=by_length[len(src) // 2] if src else 0,
        )


def evenly_spaced(count: int, max_chosen: int) -> list[int]:
    """Return at most `max_chosen` of the numbers 0 ... count - 1, evenly spaced."""
    chosen = np.linspace(0, count - 1, min(count, max_chosen)).round().astype(int)
    return [int(number) for number in np.unique(chosen)]


@dataclass(frozen=True)
class ValidationSet:
    """A validation set of a model; a multilingual one has several, such as one per direction.

    Attributes:
        subset: the sentences to decode; if it is empty, no BLEU is computed.
    """

    name: str
    corpus: Corpus
    subset: DecodedSubset
    translate: TranslateFn
    bleu: BleuFn


def require_positions(stores: Sequence[Store], max_lengths: Mapping[str, int]) -> None:
    """Check before the first update that the sentences of validation sets fit into tables of positions.

    Args:
        max_lengths: see `ModelConfigBase.max_lengths`.

    Raises:
        RecipeError: one does not; names the key and the line.
    """
    for key, limit in max_lengths.items():
        side: Side = "src" if key.startswith("encoder") else "tgt"
        for stats in (store.stats(side) for store in stores):
            if stats.max_length + 1 > limit:
                raise RecipeError(
                    f"model.{key}: {limit} positions for the {stats.max_length + 1} tokens of "
                    f"{stats.path}:{stats.max_length_line}, end of sentence included; raise it, or shorten that line"
                )


class TranslationValidator:
    """Validator of a translation model: nll on all validation sets, and BLEU on a decoded subset of each.

    Args:
        batch_tokens: sentences × longest side of a batch.
        objective: computes the nll, without label smoothing.
        command: further score of sources, hypotheses and references; None: there is none.
        pool_sets: the sets count as one text; otherwise the first one gives all but the values by set.
    """

    def __init__(
        self,
        sets: Sequence[ValidationSet],
        *,
        bleu: BleuFn,
        batch_tokens: int,
        precision: Precision,
        objective: Objective,
        command: CommandFn | None = None,
        pool_sets: bool = True,
    ) -> None:
        self.sets = sets
        self.bleu = bleu
        self.batch_tokens = batch_tokens
        self.precision = precision
        self.objective = objective
        self.command = command
        self.pool_sets = pool_sets

    def validate_shard(self, model: TranslationModel, update: int, ranks: ProcessGroup) -> ValidationShard:
        """Compute the losses and translations of this rank's share: every world_size-th batch and sentence.

        The batches do not depend on the number of ranks, and `merge_shards` adds their losses in the order of batches,
        so the nll is the same to the bit on any number of ranks.

        Raises:
            ComputeError: memory runs out; names the longest line.
        """
        longest = max(
            (get_store(valid_set.corpus).stats(side) for valid_set in self.sets for side in SIDES),
            key=attrgetter("max_length"),
        )
        remedy = (
            f"the longest line has {longest.max_length:,} tokens ({longest.path}:{longest.max_length_line}): shorten "
            "it, lower corpus.cleaning.max_length, or choose a smaller model"
        )
        with explain_oom("validation", remedy), torch.no_grad():
            return self._validate(model, ranks)

    def _validate(self, model: TranslationModel, ranks: ProcessGroup) -> ValidationShard:
        device = next(model.parameters()).device
        shard = ValidationShard([], [], [])
        batches = (
            (number, batch)
            for number, valid_set in enumerate(self.sets)
            for batch in eval_batches(valid_set.corpus, batch_tokens=self.batch_tokens)
        )
        for number, batch in islice(batches, ranks.rank, None, ranks.world_size):
            with self.precision.autocast(), record_predictions() as chunks:
                losses = model(batch.to(device), self.objective)
            shard.nats.append(float(losses.sum))
            shard.tokens.append(losses.tokens)
            shard.predictions.append(_counts(chunks))
            shard.sets.append(number)
        lines = [(valid_set, line) for valid_set in self.sets for line in valid_set.subset.src]
        for valid_set, of_set in groupby(lines[ranks.rank :: ranks.world_size], key=itemgetter(0)):
            shard.hyps.extend(valid_set.translate(model, [line for _, line in of_set]))
        return shard

    def merge_shards(self, shares: Sequence[ValidationShard]) -> Validation:
        """Return the nll of all sets, in nats per scored token, and the BLEU of the decoded subsets as one text."""
        sets = unshard([share.sets for share in shares])
        deciding = [batch for batch, set_number in enumerate(sets) if self.pool_sets or set_number == 0]
        nats, tokens = unshard([share.nats for share in shares]), unshard([share.tokens for share in shares])
        nll = _nll(nats, tokens, deciding)
        counts = unshard([share.predictions for share in shares])
        calibration = Calibration.sum([counts[each] for each in deciding]).as_dict() if math.isfinite(nll) else {}
        several = self.sets if len(self.sets) > 1 else ()
        nll_by_set = {
            valid_set.name: _nll(nats, tokens, [batch for batch, set_number in enumerate(sets) if set_number == number])
            for number, valid_set in enumerate(several if math.isfinite(sum(nats)) else ())
        }
        hyps, refs = unshard([share.hyps for share in shares]), self.references()
        if not hyps:
            return Validation(nll=nll, calibration=calibration, nll_by_set=nll_by_set)
        first = next(valid_set.subset for valid_set in self.sets if valid_set.subset.src)
        example, decoded = first.example_index, len(refs) if self.pool_sets else len(self.sets[0].subset.ref)
        remaining = iter(hyps)
        bleu_by_set = {}
        for valid_set in several:
            if ref := valid_set.subset.ref:
                bleu_by_set[valid_set.name] = round(valid_set.bleu(list(islice(remaining, len(ref))), ref), 2)
        return Validation(
            nll=nll,
            bleu=self.bleu(hyps[:decoded], refs[:decoded]),
            sample=(first.src[example], hyps[example], first.ref[example]),
            calibration=calibration,
            bleu_by_set=bleu_by_set,
            command=None if self.command is None else self.command(self.sources(), hyps, refs),
            nll_by_set=nll_by_set,
        )

    def sources(self) -> list[str]:
        """The sources of the decoded subsets of all sets."""
        return [src for valid_set in self.sets for src in valid_set.subset.src]

    def references(self) -> list[str]:
        """The references of the decoded subsets of all sets."""
        return [ref for valid_set in self.sets for ref in valid_set.subset.ref]


def _nll(nats: Sequence[float], tokens: Sequence[int], batches: Sequence[int]) -> float:
    """Loss in nats per token of some batches."""
    return sum(nats[each] for each in batches) / max(sum(tokens[each] for each in batches), 1)


def _counts(chunks: Sequence[TokenPredictions]) -> list[list[float]]:
    """Counts of the predictions of a batch; none if nothing is scored, as in blank lines, or the model computed NaN."""
    if not chunks:
        return Calibration().counts()
    confidence = torch.cat([chunk.confidence for chunk in chunks]).float().cpu()  # [N]
    is_correct = torch.cat([chunk.is_correct for chunk in chunks]).cpu()
    return (Calibration.of(confidence, is_correct) if bool(confidence.isfinite().all()) else Calibration()).counts()


def target_vocab_ids(tokenizer: Tokenizer) -> TargetVocabIds:
    """Return the ids of the target vocabulary that training needs.

    The tokens of text are the longest run of ids between special ones, which stand before them, or in models of other
    programs and in padded vocabularies also after them.
    """
    vocab = tokenizer.vocab
    not_text = sorted({vocab.pad, vocab.unk, vocab.bos, vocab.eos, *tokenizer.special_ids, vocab.size})
    before, end = max(itertools.pairwise((-1, *not_text)), key=lambda ends: ends[1] - ends[0])
    return TargetVocabIds(
        size=vocab.size,
        first_text_id=before + 1,
        end_text_id=end,
        pad=vocab.pad,
        unk=vocab.unk,
        bos=vocab.bos,
        eos=vocab.eos,
    )


@dataclass(frozen=True)
class TrainingSampler:
    """TranslationSampler that samples with `SinglePathSearch` and scores text with sacreBLEU.

    Attributes:
        limit: maximum length of a translation.
    """

    tokenizer: Tokenizer
    limit: LengthLimit

    @classmethod
    def from_recipe(cls, recipe: Recipe, tokenizer: Tokenizer) -> TrainingSampler:
        """Build the sampler with the length limit of the recipe's search and of its model."""
        return cls(tokenizer, recipe.search.limited_to(recipe.model.max_target_length()).max_length)

    def sample(
        self, model: TranslationModel, source: Source, *, count: int, temperature: float
    ) -> list[list[list[int]]]:
        """Sample `count` translations of each sentence; reproducible from torch's generator. See TranslationSampler."""
        seed = int(torch.randint(1 << 62, ()))
        method = SamplingConfig(temperature=temperature, num_samples=count, seed=seed)
        config = SearchConfig(method=method, n_best=count, length_penalty=0.0)
        search = config.build(special_ids(self.tokenizer))
        max_lengths = torch.tensor([self.limit.of(length) for length in source.real.sum(1).tolist()])
        nbest = search(model, SearchRequest.of(source, max_lengths.to(source.ids.device)))
        return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in nbest]

    def reward(self, name: RewardName, hyps: Sequence[Sequence[int]], ref: Sequence[int]) -> list[float]:
        """Return the sentence BLEU with add-one smoothing (Lin & Och 2004), or chrF2, of the decoded text, 0 to 1."""
        metric = BLEU(smooth_method="add-k", effective_order=True) if name == "bleu" else CHRF()
        *texts, reference = self.tokenizer.decode([*hyps, ref])
        return [metric.sentence_score(text, [reference]).score / 100 for text in texts]


def build_validator(
    recipe: Recipe,
    valid: Sequence[Store],
    tokenizers: TokenizerPair,
    precision: Precision,
    ranks: ProcessGroup = SINGLE_PROCESS,
    notify: Callable[[str], None] = lambda message: None,
) -> TranslationValidator:
    """Build the validator of a recipe: nll and BLEU on the validation sets, or nll alone on monolingual text.

    Args:
        notify: receives a sentence about a failure of `training.validation.command`.

    Raises:
        RecipeError: the command fails, which is tried, or a sentence has more tokens than the model has positions.
    """
    require_positions(valid, recipe.model.max_lengths())
    config, files = recipe.training.validation, recipe.corpus.valid_sets
    corpora = corpora_with_noise(recipe, files, valid, tokenizers)
    is_masked = recipe.training.objective.trains_encoder_only
    # plain beam search up to twice the tokens of the longest reference and 10: a young model may never end
    limit = 2 * max((store.stats("tgt").max_length for store in valid), default=0) + 11  # with the end of sentence
    search = recipe.search.limited_to(limit).with_plain_beam(config.beam_size)
    compute_type: ComputeType = "bf16" if precision.name == "bf16" else "float32"
    sentences = -(-config.sentences // max(1, len(valid)))  # of each set
    subsets = [
        DecodedSubset.from_store(store, 0 if isinstance(corpus, DenoisingCorpus) else sentences)
        for store, corpus in zip(valid, corpora, strict=True)
    ]

    def translate(prefix: SourcePrefix, model: TranslationModel, lines: Sequence[str]) -> list[str]:
        engine = _engine(recipe, model, compute_type=compute_type, device=precision.device)
        limited = search.limited_to(recipe.model.max_target_length(), begin=prefix.tgt_ids(tokenizers))
        try:
            return Translator(engine, tokenizers, limited).with_source_prefix(prefix).translate_lines(lines)
        except NonFiniteError:  # a BLEU of 0 leaves it to training.on_divergence what becomes of such a model
            return [""] * len(lines)

    def bleu_in(lang: str, refs: Sequence[str]) -> BleuFn:
        return partial(bleu_of, tokenize=choose_tokenizer(refs, lang, recipe.evaluation.tokenize).name)

    langs = [recipe.corpus.language_of_target(pair) for pair in files]
    sets = [
        ValidationSet(_set_name(number, pair), corpus, subset, partial(translate, pair), bleu_in(lang, subset.ref))
        for number, (pair, corpus, subset, lang) in enumerate(zip(files, corpora, subsets, langs, strict=True))
    ]
    refs = [ref for subset in subsets for ref in subset.ref]
    command = None if config.command is None else ValidationCommand(config.command, ranks=ranks, notify=notify)
    validator = TranslationValidator(
        sets,
        bleu=bleu_in(langs[0] if len(set(langs)) == 1 else recipe.corpus.tgt_lang, refs),
        batch_tokens=recipe.training.resolved_batch_tokens,
        precision=precision,
        objective=MaskedLM(0.0) if is_masked else CrossEntropy(TeacherForcing(), 0.0),
        command=command,
        pool_sets=config.pool_sets,
    )
    if command is not None:
        command.check(validator.sources(), validator.references())
    return validator


def _engine(recipe: Recipe, model: TranslationModel, *, compute_type: ComputeType, device: str) -> Engine:
    """Return the native backend if it computes what the layers of this installation do, else the layers themselves.

    These are run without rewrites, so that a change to a layer shows in validation as in training.
    """
    reference = partial(ModelEngine, [model], compute_type=compute_type, device=device, rewrite=False)
    if device != "cpu" or unsupported_model_key(recipe.model) is not None or not native().matches_layers:
        return reference()
    tensors = {name: weight.numpy() for name, weight in merge_low_rank(weights(model)).items()}
    packed = NativeModel(recipe.model, tensors, cpu_compute_type(compute_type))
    return NativeEngine(packed, name="the model", load_reference=reference)


def _set_name(number: int, files: CorpusFiles) -> str:
    """Name of a validation set in the log: its number and its file names, such as 0 val.en val.de."""
    names = dict.fromkeys(without_compression(path).name for path in (files.src, files.tgt))
    return " ".join([str(number), *names])
