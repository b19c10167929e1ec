"""Report of a fine-tuning: scores before and after on own and general text, and the lines that changed most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mtkit.display import Table, in_current_folder
from mtkit.evaluation.comparison import compare, score_table, signature_lines
from mtkit.evaluation.reasons import reasons_of
from mtkit.evaluation.score import metrics_of_run
from mtkit.finetuning.choice import AFTER, BEFORE, MIXTURE, ModelChoice, tuned_model
from mtkit.io.files import hash_file, write_text
from mtkit.io.records import write_record
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.pipeline.run_folder import RunFolder, read_json
from mtkit.pipeline.score_test_sets import translation_fingerprint
from mtkit.recipe.sections import Recipe
from mtkit.text.lines import read_lines
from mtkit.translate.load import load_translator

COMPARISON, LINES = "comparison.json", "lines.tsv"  # in the run folder


@dataclass(frozen=True)
class FinetuneReport:
    """Result of a fine-tuning.

    Attributes:
        tables: scores on own and general text, and the mixtures.
        lines: the lines that got better and worse, and the next commands.
        content: the choice, and scores and p-values by text and model.
        choice: the sentence about the model that is kept, and why; empty until training is finished.
    """

    run_dir: Path
    tables: list[Table] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    content: dict[str, Any] = field(default_factory=dict)
    choice: str = ""


def report(
    recipe: Recipe, base: Path, folder: RunFolder, choice: ModelChoice, mixture: tuple[Path, Table] | None
) -> FinetuneReport:
    """Compare the models before and after, and the chosen mixture, on the test sets of a finished run.

    Args:
        mixture: as `mix` returns it; None: there is none.

    Raises:
        MissingInputError, DataError, ReadWriteError: a model or text cannot be read, or the results not be written.
    """
    known = read_json(folder.path / COMPARISON)
    mixed, table_of_mixtures = mixture or (None, None)
    translations = _Translations(recipe, folder, known.get("translations", {}))
    tables, lines, content = list[Table](), list[str](), dict[str, Any]()
    rows = [["text", "line", "chrf_before", "chrf_after", "src", BEFORE, AFTER, "ref"]]
    for name, files in recipe.corpus.test.items():
        hyps = {
            BEFORE: translations.of(BEFORE, base, name),
            AFTER: translations.of(AFTER, tuned_model(folder.path, choice), name)
            if choice.keeps_base
            else list(read_lines(folder.hyps(name))),
            **({MIXTURE: translations.of(MIXTURE, mixed, name)} if mixed else {}),
        }
        src, ref = list(read_lines(files.src)), list(read_lines(files.tgt))
        lang = recipe.corpus.language_of_target(files)
        metrics = metrics_of_run(ref, recipe.evaluation, tgt_lang=lang)
        scoring = recipe.evaluation
        comparison = compare(
            hyps, [ref], metrics, tgt_lang=lang, tokenize=scoring.tokenize, lowercase=scoring.lowercase
        )
        table = score_table(comparison.scores, label="model", p_values=comparison.p_values, best=comparison.best())
        title = f"{name}: {len(src):,} lines of {in_current_folder(str(files.src))}; p against the model before"
        tables.append(replace(table, title=title))
        content[name] = comparison.as_dict()
        (reasons,) = reasons_of(comparison, {label: hyps[label] for label in (BEFORE, AFTER)}, [ref], src)
        for line in reasons.lines:
            texts = (src[line.number - 1], *line.texts, ref[line.number - 1])
            rows.append([name, str(line.number), *(f"{score:.2f}" for score in line.scores), *texts])
        lines += ["", f"{name}:", *reasons.summary(), *reasons.examples(ref, src)]
        lines += signature_lines(comparison.scores) if name == next(iter(content)) else []
    tsv = ("\t".join(cell.replace("\t", " ") for cell in row) for row in rows)
    write_text(folder.path / LINES, "".join(f"{row}\n" for row in tsv))
    chosen = {"choice": choice.as_dict()}
    write_record(folder.path / COMPARISON, {**chosen, "test": content, "translations": translations.fingerprints})
    if table_of_mixtures is not None:
        tables.append(table_of_mixtures)
    lines += ["", *_next_steps(recipe, folder.path, choice, mixed)]
    return FinetuneReport(folder.path, tables, lines, {**chosen, **content}, choice.sentence())


class _Translations:
    """Translations of the test sets by other models than that of the run, kept in its folder `hyps`."""

    def __init__(self, recipe: Recipe, folder: RunFolder, known: Mapping[str, Any]) -> None:
        self._recipe, self._folder, self._known = recipe, folder, known
        self.fingerprints: dict[str, Any] = {}

    def of(self, label: str, model: Path, name: str) -> list[str]:
        """Translations of a test set by a model, made again if anything that they depend on changed."""
        files, output = self._recipe.corpus.test[name], self._folder.hyps(f"{name}.{label}")
        weights = hash_file(model / WEIGHTS)
        inputs = translation_fingerprint(self._recipe, files, weights=weights, src=hash_file(files.src))
        key = output.name
        if not output.is_file() or self._known.get(key) != [inputs, hash_file(output)]:
            translator = load_translator(model, search=self._recipe.search)
            hyps = translator.with_source_prefix(files).translate_lines(list(read_lines(files.src)))
            output.parent.mkdir(exist_ok=True)
            write_text(output, "".join(f"{hyp}\n" for hyp in hyps))
        self.fingerprints[key] = [inputs, hash_file(output)]
        return list(read_lines(output))


def _next_steps(recipe: Recipe, path: Path, choice: ModelChoice, mixed: Path | None) -> list[str]:
    lines = [f"translate with: mtkit translate {path} FILE", f"all changed lines: {path / LINES}"]
    if choice.keeps_base:
        lines.insert(1, f"the fine-tuned model, which is not kept: mtkit translate {tuned_model(path, choice)} FILE")
    if mixed is not None:
        return [*lines, f"the mixture: mtkit translate {mixed} FILE"]
    if len(recipe.corpus.test) > 1:
        return [*lines, "to keep more of the general text: repeat the command with --keep-general 0.5"]
    return [*lines, "to see what was forgotten: give --general SRC TGT, or --general-source FILE"]
