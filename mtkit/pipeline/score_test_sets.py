"""The stage after training: translating and scoring the test sets, and the summary for the user."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence

from mtkit.corpus.config import HeldOutPairs
from mtkit.display import count_of, in_current_folder
from mtkit.errors import DataError
from mtkit.evaluation.comparison import Comparison, compare, segment_groups
from mtkit.evaluation.config import REPORTED, EvaluationConfig, MetricName, ReportOptions
from mtkit.evaluation.metrics import choose_metrics
from mtkit.evaluation.score import Scores, evaluate, metrics_of_run
from mtkit.io.files import hash_file, write_text
from mtkit.io.records import Json
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.model_folder.model_card import write_model_card
from mtkit.pipeline.open_run import Run
from mtkit.pipeline.reconcile import hash_json
from mtkit.pipeline.run_folder import RunFolder
from mtkit.recipe.paths import to_plain
from mtkit.recipe.sections import Recipe
from mtkit.text.lines import read_lines
from mtkit.text.source_prefix import SourcePrefix
from mtkit.translate.load import load_translator
from mtkit.translate.translator import Translator

EMBEDDED = "embedded"  # test set of the corpus in the package
UNTRAINED_BLEU = 3  # far above what says nothing: other sentences as translations score 0.04 to 0.26 on Tatoeba
NUM_EXAMPLES = 6  # sentences in the summary
DECODING_FIELDS = {"beam_size", "compute_type", "seconds"}  # of a test set in report.json, besides its scores


class TestSets:
    """The test sets of a run with a finished model, which is loaded only if a test set must be translated."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.weights = hash_file(run.folder.model / WEIGHTS)
        self._translator: Translator | None = None

    @property
    def translator(self) -> Translator:
        """Translator with the search of the recipe, which may have changed since the model was written."""
        if self._translator is None:
            recipe = self.run.recipe
            self._translator = load_translator(
                self.run.folder.model,
                search=recipe.search,
                allow_masked=recipe.training.objective.trains_encoder_only,
            )
        return self._translator

    def translate(self, name: str, previous: Json) -> Json:
        """Translate a test set into `hyps/NAME.txt` unless its translation is up to date.

        Args:
            previous: its entry in report.json, empty if there is none.

        Returns:
            The DECODING_FIELDS of report.json.
        """
        run = self.run
        files, output = run.recipe.corpus.test[name], run.folder.hyps(name)
        prefix = SourcePrefix(tag=files.tag, prefix=files.prefix, src_lang=files.src_lang, tgt_lang=files.tgt_lang)
        inputs = translation_fingerprint(run.recipe, files, weights=self.weights, src=run.hash(files.src))
        fingerprints = run.folder.read_fingerprints().get("test", {})
        is_current = output.is_file() and fingerprints.get(name) == [inputs, hash_file(output)]
        if is_current and previous.keys() >= DECODING_FIELDS:
            run.mark_unchanged(f"translate {name}")
            return {key: previous[key] for key in sorted(DECODING_FIELDS)}
        lines = list(read_lines(files.src))
        translator = self.translator.with_source_prefix(prefix)
        run.begin(f"translate {name}", count_of(len(lines), "line"))
        start = time.perf_counter()
        hyps = translator.translate_lines(lines)
        seconds = time.perf_counter() - start
        output.parent.mkdir(exist_ok=True)
        if output.is_symlink() or output.is_fifo():
            output.unlink()  # the file that a link points to is not one of this run
        write_text(output, "".join(f"{hyp}\n" for hyp in hyps))
        run.update_record(run.folder.fingerprints, {"test": {**fingerprints, name: [inputs, hash_file(output)]}})
        run.notify(f"translate {name}", f"{len(lines):,} lines in {seconds:.1f} s, {len(lines) / seconds:.0f} lines/s")
        beam_size = run.recipe.search.beam_size
        return {"beam_size": beam_size, "compute_type": translator.compute_type, "seconds": round(seconds, 2)}


def translation_fingerprint(recipe: Recipe, files: HeldOutPairs, *, weights: str, src: str) -> str:
    """Hash of what the translation of a test set depends on; `weights` and `src` are those of the files."""
    prefix = [files.tag, files.prefix] if files.tag or files.prefix else []
    languages = [files.src_lang, files.tgt_lang] if files.src_lang or files.tgt_lang else []
    return hash_json([weights, src, to_plain(recipe.search), *prefix, *languages])


def score_fingerprint(recipe: Recipe, folder: RunFolder, name: str) -> str:
    """Hash of what the scores of a test set depend on: its translation, what that depends on, references and metrics.

    Raises:
        MissingInputError: a file does not exist.
    """
    files = recipe.corpus.test[name]
    weights, src = hash_file(folder.model / WEIGHTS), hash_file(files.src)
    inputs = translation_fingerprint(recipe, files, weights=weights, src=src)
    metrics = [to_plain(recipe.scoring), recipe.corpus.language_of_target(files)]
    return hash_json([inputs, hash_file(folder.hyps(name)), hash_file(files.tgt), *metrics])


def is_scored(recipe: Recipe, folder: RunFolder, name: str) -> bool:
    """Return whether report.json has the scores of this recipe, its finished model and the present text of a test set.

    Raises:
        MissingInputError: a file does not exist.
    """
    recorded = folder.read_fingerprints().get("scores", {}).get(name)
    return name in folder.read_report().get("test", {}) and recorded == score_fingerprint(recipe, folder, name)


def score_test_sets(run: Run) -> dict[str, Scores]:
    """Translate and score all test sets; write report.json and the scores in the model card.

    Raises:
        DataError: source and reference have different numbers of lines, or are not UTF-8.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    report = run.folder.read_report()
    test_sets = TestSets(run)
    corpus = run.recipe.corpus
    scores: dict[str, Scores] = {}
    entries: Json = {}
    fingerprints: dict[str, str] = {}
    for name, files in corpus.test.items():
        decoding = test_sets.translate(name, report.get("test", {}).get(name, {}))
        hyps, refs = list(read_lines(run.folder.hyps(name))), list(read_lines(files.tgt))
        scores[name] = evaluate(hyps, refs, run.recipe.scoring, tgt_lang=corpus.language_of_target(files))
        for note in scores[name].notes:
            run.notify(f"score {name}", note)
        entries[name] = {**scores[name].as_dict(), **decoding}
        fingerprints[name] = score_fingerprint(run.recipe, run.folder, name)
    report = {"test": entries, **{key: value for key, value in report.items() if key != "test"}}
    run.update_record(run.folder.report, report)
    run.update_record(run.folder.fingerprints, {"scores": fingerprints})
    write_model_card(run.folder.model, report)
    return scores


def compare_test_sets(run: Run, options: ReportOptions) -> list[Comparison]:
    """Score each test set with the settings of a report, which leaves report.json with the scores of the recipe.

    Translations and scores of the run that are missing or outdated are made first, as `score_test_sets` does.

    Args:
        options: settings of the report; without metrics, those of the run's own report.

    Returns:
        One result for each test set, whose only system has the name of the test set. A test set that no metric suits is
        left out, which is logged.

    Raises:
        UsageError: as `ReportOptions.apply`.
        DataError: no metric suits any test set; or as `score_test_sets`, `compare` and `segment_groups`.
        MissingInputError, ReadWriteError: as `score_test_sets`.
    """
    corpus, config = run.recipe.corpus, options.apply(run.recipe.scoring)
    texts = {name: [list(read_lines(path)) for path in (files.src, files.tgt)] for name, files in corpus.test.items()}
    metrics = _suitable_metrics(run, options, config, {name: ref for name, (_, ref) in texts.items()})
    groups = {name: segment_groups(options, ref, src) for name, (src, ref) in texts.items()}  # before translating
    if not all(run.folder.hyps(name).is_file() and is_scored(run.recipe, run.folder, name) for name in texts):
        score_test_sets(run)
    results = []
    for name in metrics:
        src, ref = texts[name]
        result = compare(
            {name: list(read_lines(run.folder.hyps(name)))},
            [ref],
            metrics[name],
            tgt_lang=corpus.language_of_target(corpus.test[name]),
            tokenize=config.tokenize,
            lowercase=config.lowercase,
            src=src,
            intervals=options.intervals,
            groups=groups[name],
        )
        results.append(result)
    return results


def _suitable_metrics(
    run: Run, options: ReportOptions, config: EvaluationConfig, refs: Mapping[str, list[str]]
) -> dict[str, Sequence[MetricName]]:
    """Return the metrics of each test set, of which one at least suits it; log the test sets that have none.

    Raises:
        DataError: no test set has one.
    """
    suitable: dict[str, Sequence[MetricName]] = {}
    unsuitable = []
    for name, ref in refs.items():
        lang = run.recipe.corpus.language_of_target(run.recipe.corpus.test[name])
        metrics = config.metrics if options.metrics else metrics_of_run(ref, config, tgt_lang=lang)
        choice = choose_metrics([ref], metrics, tgt_lang=lang, tokenize=config.tokenize)
        if choice.metrics:
            suitable[name] = metrics
        else:
            unsuitable.append((name, "; ".join(choice.notes)))
    if not suitable:
        raise DataError("\n".join(f"{name}: {note}; choose another of --metrics" for name, note in unsuitable))
    for name, note in unsuitable:
        run.notify(f"score {name}", f"{note}; no metric is left for {name}")
    return suitable


def summary_lines(run: Run, scores: dict[str, Scores]) -> list[str]:
    """Return the summary for the user: scores, their signatures, example translations, and paths of the output."""
    lines: list[str] = []
    for name, of_test in scores.items():
        values = "  ".join(f"{REPORTED[metric].heading} {score.value:.1f}" for metric, score in of_test.values.items())
        lines.append(f"{name}: {values}")
    if any(of.values["bleu"].value < UNTRAINED_BLEU for of in scores.values() if "bleu" in of.values):
        lines.append(f"BLEU below {UNTRAINED_BLEU} is no translation yet: train longer (--budget), or on more text")
    signatures = {s.signature: metric for of_test in scores.values() for metric, s in of_test.values.items()}
    lines += [f"  {REPORTED[metric].heading}: {signature}" for signature, metric in signatures.items()]
    if scores:
        first = next(iter(scores))
        files = run.recipe.corpus.test[first]
        texts = [list(read_lines(path)) for path in (files.src, run.folder.hyps(first), files.tgt)]
        count = len(texts[0])
        centres = [(number + 0.5) * count / NUM_EXAMPLES - 0.5 for number in range(NUM_EXAMPLES)]  # evenly spaced
        for index in sorted({round(centre) for centre in centres}) if count else []:
            src, hyp, ref = (text[index] for text in texts)
            lines += ["", f"  src {src}", f"  hyp {hyp}", f"  ref {ref}"]
    return [*lines, "", *map(in_current_folder, _output_paths(run, list(scores)))]


def _output_paths(run: Run, tests: Sequence[str]) -> list[str]:
    folder = run.folder
    lines = [f"run folder: {folder.path}", f"  model         {folder.model}"]
    lines += [f"  translations  {folder.hyps(test)}" for test in tests]
    lines += [f"  scores        {folder.report}"] if folder.report.is_file() else []
    lines += [f"  plot          {plot}" for plot in sorted(folder.path.glob("*.png"))]
    path = shlex.quote(str(folder.path))
    if run.recipe.training.objective.trains_encoder_only:
        return [*lines, f"train a translation model from it: training.init_from={{model: {path}, parts: [encoder]}}"]
    lines.append(f"translate with: mtkit translate {path} FILE")
    if EMBEDDED in tests:
        lines += [
            "",
            "The embedded corpus is a toy, written by a grammar of some thousand words: sentences of your own come out "
            "wrong. A system from text of your own: mtkit run SRC TGT. From 29,000 captions of the network:",
            "mtkit fetch multi30k && mtkit run multi30k-transformer corpus.root=data/multi30k",
        ]
    return lines
