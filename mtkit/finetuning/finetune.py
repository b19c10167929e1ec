"""Fine-tuning: the steps from a model and own text to a tuned model and a report on own and general text.

The training is an ordinary run of a recipe that begins with the weights of the model (`training.init_from`). A command
that is repeated continues where it was interrupted: texts and recipe are kept once they are written, and the run
resumes as any run does.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mtkit.display import count_of
from mtkit.errors import MtkitError, RecipeError, UsageError
from mtkit.finetuning.choice import (
    CHOICE,
    MAX_LINES,
    ModelChoice,
    choose_model,
    lines_within,
    mix,
    tuned_model,
)
from mtkit.finetuning.extension import EXTENDED, NewLanguage, extend_model, with_language
from mtkit.finetuning.learning_rate import RangeTest
from mtkit.finetuning.report import FinetuneReport, report
from mtkit.finetuning.settings import (
    GENERAL,
    OWN,
    TrainingPlan,
    fit_updates,
    unstated_reasons,
    with_course,
    write_tree,
)
from mtkit.finetuning.texts import GivenText, split_text, translated_text
from mtkit.io.files import hash_file
from mtkit.io.lock import FileLock
from mtkit.io.records import read_record, write_record
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.model_folder.folder import ModelMetadata, find_model
from mtkit.pipeline import stages
from mtkit.pipeline.open_run import Run, open_run
from mtkit.pipeline.prepare_corpus import check_inputs, prepare_corpus
from mtkit.pipeline.prepare_tokenizer import prepare_tokenizer, require_trainable
from mtkit.pipeline.run_folder import RunFolder
from mtkit.pipeline.train_stage import check_init_sources, resolve_auto_batch_tokens
from mtkit.recipe.defaults.facts import BudgetLimits
from mtkit.recipe.recipe import read_recipe
from mtkit.recipe.sections import Recipe
from mtkit.text.language_tags import match_language
from mtkit.text.lines import COMPRESSION_SUFFIXES
from mtkit.text.source_prefix import NO_PREFIX, SourcePrefix
from mtkit.text.subword.new_pieces import require_extendable
from mtkit.training.monitoring.log import Display, NullDisplay
from mtkit.training.time_budget import MAX_RESERVE
from mtkit.translate.load import load_translator, read_translation_model
from mtkit.translate.reference_text import prefix_ids

AdapterKind = Literal["lora", "bias", "norm"]
RECORD, RECIPE, LOCK = "finetune.json", "finetune.yaml", "finetune.lock"
RATE = "training.optimiser.learning_rate"
RANGE_TEST_SHARE = 0.15  # of a budget at most
CHOICE_SHARE = 0.05  # of a budget for the choice between the models; as much is spent on timing it
COMPARED = "compared lines"  # in the record: of own valid at most, for the choice between the models
MAX_TRANSLATED = 5000  # lines of --general-source
_WRITTEN = (EXTENDED, OWN, f"{OWN}-pairs", RECIPE, RECORD, CHOICE)  # and folders of general text


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    """Options of a fine-tuning.

    Attributes:
        base: the model folder or run to begin from.
        run: the run folder to write.
        general: pairs of general text, for replay and to watch; of a model of many languages in those that the files
            are named by.
        general_source: general text in the source language, which the model translates itself; None: there is none.
        general_share: share of general text among the training tokens; None: by rule.
        prefix: tag and prefix of all sources.
        overrides: of the recipe, `key=value` each.
        keep_general: BLEU of general text that a mixture of the weights before and after may lose; None: no mixture.
        adapter: weights that are trained alone; None: all.
        extend_tokenizer: pieces that own text adds to each subword model at most; None: the tokenizer is kept.
        add_language: a language that the model gets; None: it keeps those that it has.
        fresh: delete a training in the run folder and begin again.
    """

    base: Path
    run: Path
    text: GivenText
    general: tuple[GivenText, ...] = ()
    general_source: Path | None = None
    general_share: float | None = None
    limits: BudgetLimits = field(default_factory=BudgetLimits)
    prefix: SourcePrefix = NO_PREFIX
    overrides: tuple[str, ...] = ()
    keep_general: float | None = None
    adapter: AdapterKind | None = None
    extend_tokenizer: int | None = None
    add_language: NewLanguage | None = None
    fresh: bool = False

    @property
    def extends(self) -> bool:
        """True if training begins with a copy of the model that has more tokens."""
        return self.extend_tokenizer is not None or self.add_language is not None

    @property
    def has_general(self) -> bool:
        """True if there is general text to watch."""
        return bool(self.general) or self.general_source is not None

    def general_prefixes(self, metadata: ModelMetadata) -> dict[str, SourcePrefix]:
        """Tag, prefix and languages of each general text, by the name that it has in the run.

        Languages are those that the names of the files end with, in a model that has them, else those of own text.
        """
        if self.general_source is not None:
            return {GENERAL: self.prefix}
        prefixes = {}
        for number, text in enumerate(self.general, start=1):
            named = [_language_in_name(path, metadata.languages) for path in text.files]
            has_names = len(named) == 2 and None not in named and named[0] != named[1]
            src, tgt = named if has_names else (self.prefix.src_lang, self.prefix.tgt_lang)
            name = GENERAL if number == 1 else f"{GENERAL}-{number}"
            prefixes[name] = replace(self.prefix, src_lang=src, tgt_lang=tgt)
        return prefixes

    def check(self) -> None:
        """Check the options before any work.

        Raises:
            UsageError: two options contradict each other, or a file is of a wrong kind.
            MissingInputError: a file does not exist.
        """
        self.text.check()
        if self.general and self.general_source is not None:
            raise UsageError("finetune: --general and --general-source are two ways to one end; give one of them")
        for general in self.general:
            general.check()
        if self.general_source is not None:
            replace(self.text, files=(self.general_source, self.general_source), valid=None, test=None).check()
        if self.extends and self.adapter is not None:
            option = "--add-language" if self.extend_tokenizer is None else "--extend-tokenizer"
            raise UsageError(f"finetune: --adapter does not train the rows that {option} adds; omit one")
        for option, value in (("--general-share", self.general_share), ("--keep-general", self.keep_general)):
            if value is not None and not self.has_general:
                raise UsageError(f"finetune: {option} needs general text: give --general SRC TGT or --general-source")


def _language_in_name(path: Path, languages: Collection[str]) -> str | None:
    """The language that the name of a file ends with, as of news.de and news.deu_Latn.txt.gz; None if it has none."""
    name = path
    while name.suffix.lower() in (*COMPRESSION_SUFFIXES, ".txt"):
        name = name.with_suffix("")
    code = name.suffix.removeprefix(".")
    return code if code in languages else match_language(code, languages)


def finetune(options: FinetuneOptions, display: Display | None = None) -> FinetuneReport:
    """Fine-tune a model on own text, or resume it, choose between the models before and after, and compare them.

    Raises:
        UsageError: options contradict each other, the model is no translation model or lacks the tag, or the folder is
            no fine-tuning.
        RecipeError: an override is invalid, or a training was started in the folder with other text or options.
        MissingInputError, DataError, ReadWriteError, BusyError, ComputeError, Interrupted: as `stages.run`.
    """
    options.check()
    base = find_model(options.base)
    # the model must translate, with the tag that its sources need
    stored = read_translation_model(base)
    require_trainable(stored.tokenizers, base)
    if options.add_language is not None:
        tokenizers = with_language(stored.tokenizers, options.add_language).tokenizers
        metadata = replace(stored.metadata, languages=[*tokenizers.languages])
        stored = replace(stored, tokenizers=tokenizers, metadata=metadata)
    src_lang, tgt_lang = stored.metadata.direction(options.prefix)
    if (new := options.add_language) is not None and new.code not in (src_lang, tgt_lang):
        raise UsageError(f"finetune: --add-language {new.code}: the text is {src_lang} to {tgt_lang}; give --tgt-lang")
    for prefix in (options.prefix, *options.general_prefixes(stored.metadata).values()):
        stored.metadata.direction(prefix)
        prefix_ids(stored, prefix)  # its errors
    if options.extend_tokenizer is not None:
        for tokenizer in (stored.tokenizers.src, stored.tokenizers.tgt):
            require_extendable(tokenizer)
    metadata = replace(stored.metadata, src_lang=src_lang, tgt_lang=tgt_lang)
    steps = _Steps(options, base, metadata, display or NullDisplay())
    with _locked(options.run):
        steps.prepare_texts()
        recipe = steps.recipe()
        choices: list[ModelChoice] = []
        compared = steps.record().get(COMPARED, MAX_LINES)
        result = stages.run_stages(
            recipe,
            run_dir=options.run,
            fresh=options.fresh,
            display=display,
            started=options.limits.started,
            after_training=lambda run: choices.append(choose_model(run, steps.before, compared)),
        )
        if not choices:
            return FinetuneReport(options.run, lines=result.lines)
        mixture = None
        if options.keep_general is not None:
            tuned = tuned_model(options.run, choices[0])
            mixture = mix(recipe, options.run, tuned, max_loss=options.keep_general, notify=steps.notify)
        return report(recipe, steps.before, RunFolder(options.run), choices[0], mixture)


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """Lock the folder of a fine-tuning, which is made; a new one that stays empty is removed."""
    is_foreign = run.exists() and not run.is_dir()
    if run.is_dir() and not (run / RECORD).is_file():
        # a call that was killed before its record was written leaves the lock, and a part of the record
        is_foreign = any(path.name != LOCK and not path.name.startswith(f".{RECORD}.") for path in run.iterdir())
    if is_foreign:
        raise UsageError(f"{run}: exists and is no fine-tuning of mtkit; name another folder with -o")
    run.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(run / LOCK, run, remove=True):
            yield
    finally:
        if not any(run.iterdir()):
            run.rmdir()


class _Steps:
    """Steps of a fine-tuning, each of which keeps what an earlier call has finished."""

    def __init__(self, options: FinetuneOptions, base: Path, metadata: ModelMetadata, display: Display) -> None:
        self.options, self.base, self.metadata, self.display = options, base, metadata, display
        self.run = options.run
        self.langs = metadata.src_lang, metadata.tgt_lang
        self.general = options.general_prefixes(metadata)
        # as much of own text as of each general one; Chu et al. 2017 mix as many sentences of two texts
        default_share = len(self.general) / (1 + len(self.general))  # https://aclanthology.org/P17-2061
        self.share = default_share if options.general_share is None else options.general_share
        # before, a new language is written as its relative
        self.before = base if options.add_language is None else options.run / EXTENDED

    def notify(self, stage: str, message: str) -> None:
        self.display.event(stage, None, {"result": message})

    def prepare_texts(self) -> None:
        """Split own and general text, unless that was done; after an error nothing of it is left."""
        self._compare_record()
        notify, texts = partial(self.notify, "text"), list(self.options.general)
        try:
            reports = {OWN: split_text(self.options.text, self.run / OWN, self.langs, notify)}
            if (source := self.options.general_source) is not None:
                translator = load_translator(self.base).with_source_prefix(self.options.prefix)
                folder = self.run / f"{GENERAL}-translated"
                notify(f"{source}: translating up to {MAX_TRANSLATED:,} lines with the model")
                texts = [GivenText(translated_text(source, folder, translator.translate_lines, MAX_TRANSLATED))]
            for (name, prefix), text in zip(self.general.items(), texts, strict=True):
                langs = self.metadata.direction(prefix)
                if self.metadata.languages:
                    notify(f"{name}: {' to '.join(langs)}")
                reports[name] = split_text(text, self.run / name, langs, notify)
        except (MtkitError, KeyboardInterrupt):
            if not RunFolder(self.run).has_training():
                self._remove_written()
            raise
        for name, each in reports.items():
            for line in each.describe() or [count_of(each.counts["train"], "pair")]:
                notify(f"{name}: {line}")

    def _compare_record(self) -> None:
        """Compare text and options with those of the fine-tuning in the folder, and write them.

        Raises:
            RecipeError: they are others, and training was started.
        """
        options, path = self.options, self.run / RECORD
        texts = options.general if options.general_source is None else [GivenText((options.general_source,) * 2)]
        languages = [self.metadata.direction(prefix) for prefix in self.general.values()]
        content: dict[str, Any] = {
            "model": hash_file(self.base / WEIGHTS),
            "text": options.text.inputs,
            "general": {key: value for text in texts for key, value in text.inputs.items()},
            "languages of --general": [list(each) for each in languages] if self.metadata.languages else None,
            "--general-share": self.share,
            "--adapter": options.adapter,
            "--extend-tokenizer": options.extend_tokenizer,
            "--add-language": options.add_language and asdict(options.add_language),
            "--budget": options.limits.words,
            "--tag and --prefix": asdict(options.prefix),
        }
        known = self.record() if path.is_file() and not options.fresh else {}
        changed = [key for key, value in content.items() if known and known.get(key) != value]
        if changed and RunFolder(self.run).has_training():
            raise RecipeError(
                f"{self.run}: {', '.join(changed)} changed since this fine-tuning was started; start over with "
                "--fresh, or name another folder with -o"
            )
        if changed or not known:
            self._remove_written()
            write_record(path, content)

    def record(self) -> dict[str, Any]:
        """The record of text and options."""
        return read_record(self.run / RECORD, remedy="start over with --fresh")

    def _remove_written(self) -> None:
        for path in (*(self.run / name for name in _WRITTEN), *self.run.glob(f"{GENERAL}*")):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def recipe(self) -> Recipe:
        """The recipe of the training; its settings are chosen once, and then kept."""
        path, overrides = self.run / RECIPE, self.options.overrides
        if not path.is_file():
            initial = self.base
            if self.options.extends:
                count, language = self.options.extend_tokenizer, self.options.add_language
                self.notify("tokenizer", extend_model(self.base, self.run, self.langs, count=count, language=language))
                initial = self.run / EXTENDED
            plan = TrainingPlan(
                base=initial,
                metadata=self.metadata,
                run=self.run,
                general_share=self.share,
                prefix=self.options.prefix,
                general=self.general,
                limits=self.options.limits,
                adapter=self.options.adapter,
            )
            tree, reasons = plan.recipe_tree()
            write_tree(self.run / f".{RECIPE}", tree, {})
            try:
                draft = read_recipe(str(self.run / f".{RECIPE}"), overrides)
                tree, reasons = self._measured(tree, reasons, draft.recipe)
            finally:
                (self.run / f".{RECIPE}").unlink(missing_ok=True)
            write_tree(path, tree, unstated_reasons(reasons, draft.stated))
        draft = read_recipe(str(path), overrides)
        return replace(draft.recipe, chosen=unstated_reasons(draft.recipe.chosen, draft.stated))

    def _measured(
        self, tree: dict[str, Any], reasons: dict[str, str], draft: Recipe
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """A tree with the learning rate of the range test, and with the updates that fit into the budget."""
        limits = self.options.limits
        check_inputs(draft)
        with open_run(draft, self.run, fresh=self.options.fresh, display=self.display) as run:
            check_init_sources(run)
            tokenizers = prepare_tokenizer(run)
            corpora = prepare_corpus(run, tokenizers)
            run = resolve_auto_batch_tokens(run, tokenizers, corpora)
            seconds = None if limits.hours is None else RANGE_TEST_SHARE * 3600 * limits.hours
            test = RangeTest(run, tokenizers, corpora, seconds=seconds)
            stated = {override.partition("=")[0] for override in self.options.overrides}
            max_updates = draft.training.max_updates
            updates = fit_updates(max_updates, limits, test.seconds_per_update)
            tree = with_course(tree, max_updates, updates)
            training, reasons = tree["training"], dict(reasons)
            if limits.hours is not None:
                training["budget_hours"] = self._hours_of_training(run, limits.hours)
            if updates < max_updates:
                reasons["training.budget_updates"] = f"{limits.words} of training"
            if not stated & {RATE, "training.optimiser"}:
                rate, reasons[RATE] = test.result()
                training["optimiser"] = {**training["optimiser"], "learning_rate": rate}
            return tree, reasons

    def _hours_of_training(self, run: Run, hours: float) -> float:
        """The budget without the time of the choice between the models, whose lines are recorded."""
        lines, seconds = lines_within(run, self.before, CHOICE_SHARE * 3600 * hours)
        write_record(self.run / RECORD, {**self.record(), COMPARED: lines})
        # even few lines may take longer
        return round(hours - min(seconds / 3600, MAX_RESERVE * hours), 6)
