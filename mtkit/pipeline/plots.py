"""Plots of a run: the learning curve, the attention map of a translated sentence, and BLEU by source length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from mtkit.errors import DataError, UsageError
from mtkit.evaluation.comparison import compare
from mtkit.evaluation.tokenizer_choice import choose_tokenizer
from mtkit.model_folder.folder import LoadedModel
from mtkit.pipeline.open_run import Run
from mtkit.plot.curves import plot_curves
from mtkit.plot.figure import BleuByLength, LengthGroup, draw_bleu_by_length, is_installed, plot_attention
from mtkit.search.hypothesis import SentenceRequest
from mtkit.text.lines import read_lines
from mtkit.text.source_prefix import NO_PREFIX, SourcePrefix
from mtkit.translate.engine import Engine, StartedEngine, special_ids
from mtkit.translate.load import read_translation_model
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.reference_text import prefix_ids

LENGTH_GROUPS = 5
PLOTTED_LENGTHS = range(6, 11)  # words of a sentence whose attention map is readable


def draw_plots(run: Run) -> None:
    """Draw `learning_curve.png`, `bleu_by_length.png` and `attention.png` in the run folder, if there is matplotlib.

    A plot that cannot be drawn is reported, not raised: the results of the run are complete without it.

    Raises:
        ReadWriteError: a plot cannot be written.
    """
    if not is_installed():
        run.notify("plots", "not drawn; pip install 'mtkit[plot]'")
        return
    for draw in (_draw_learning_curve, _draw_bleu_by_length, _draw_attention):
        try:
            draw(run)
        except (DataError, UsageError) as error:  # a log without updates, a model without attention
            run.notify("plots", str(error))
        except ImportError as error:  # matplotlib is installed, but broken
            run.notify("plots", f"not drawn: {error}")
            return


def _draw_learning_curve(run: Run) -> None:
    plot_curves([run.folder.path], run.folder.path / "learning_curve.png")


def _draw_attention(run: Run) -> None:
    example = _example_sentence(run)
    if example is not None:
        sentence, prefix = example
        plot_sentence_attention(run.folder.path, sentence, run.folder.path / "attention.png", prefix=prefix)


def _draw_bleu_by_length(run: Run) -> None:
    """Draw BLEU of the first test set by the length of its sources; nothing if all are of one length."""
    corpus, scoring = run.recipe.corpus, run.recipe.scoring
    for name, files in list(corpus.test.items())[:1]:
        src, refs, hyps = (list(read_lines(path)) for path in (files.src, files.tgt, run.folder.hyps(name)))
        tokenize = choose_tokenizer(refs, corpus.language_of_target(files), scoring.tokenize).name
        is_unspaced = choose_tokenizer(src, corpus.src_lang).is_unspaced
        groups, values = [], []
        for group, lines in _equal_groups([len(line) if is_unspaced else len(line.split()) for line in src]).items():
            hyp, ref = ([text[i] for i in lines] for text in (hyps, refs))
            result = compare({name: hyp}, [ref], ["bleu"], tokenize=tokenize, lowercase=scoring.lowercase)
            bleu = result.scores[name].values["bleu"]
            groups.append(LengthGroup(group, len(lines)))
            values.append((bleu.value, bleu.interval.margin if bleu.interval else 0.0))
        if len(groups) > 1:
            system = BleuByLength(f"{run.recipe.name}, test set {name}", *zip(*values, strict=True))
            path = run.folder.path / "bleu_by_length.png"
            draw_bleu_by_length(groups, [system], path, whiskers="95% interval")


def _equal_groups(lengths: Sequence[int]) -> dict[str, list[int]]:
    """Group lines by length, about equally many in each of at most LENGTH_GROUPS groups."""
    limits = np.unique(np.quantile(lengths, np.arange(1, LENGTH_GROUPS + 1) / LENGTH_GROUPS, method="lower"))
    members = np.searchsorted(limits, lengths)
    groups = {}
    for number in range(len(limits)):
        lines = np.flatnonzero(members == number).tolist()
        of_group = [lengths[line] for line in lines]
        shortest, longest = min(of_group), max(of_group)
        groups[str(shortest) if shortest == longest else f"{shortest}-{longest}"] = lines
    return groups


def _example_sentence(run: Run) -> tuple[str, SourcePrefix] | None:
    """Return a test sentence of a readable length, else the first one that is not blank, and what precedes it."""
    first: tuple[str, SourcePrefix] | None = None
    for files in run.recipe.corpus.test.values():
        for line in read_lines(files.src):
            if len(line.split()) in PLOTTED_LENGTHS:
                return line, files
            if first is None and line.strip():
                first = line, files
    return first


@torch.inference_mode()
def plot_sentence_attention(model: Path, sentence: str, output: Path, *, prefix: SourcePrefix = NO_PREFIX) -> None:
    """Translate a sentence and draw its attention map: that of the layer, or the head, that aligns words.

    Raises:
        UsageError: the model does not translate or has no attention, or the sentence or its translation is empty; also
            as `prefix_ids`.
        MissingInputError, DataError: the model cannot be read.
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the plot cannot be written.
    """
    loaded = read_translation_model(model).load()
    before = prefix_ids(loaded, prefix)
    ids = loaded.tokenizers.encode("src", [sentence])[0]
    if not sentence.strip() or not ids:
        raise UsageError("there is nothing to translate: the sentence is empty")
    ids = [*before, *ids, *loaded.tokenizers.src.after]
    config = loaded.metadata.search
    ids_with_meaning = special_ids(
        loaded.tokenizers.tgt, allow_unknown=config.allow_unknown, copy_ids=loaded.tokenizers.copy_ids("tgt")
    )
    ids.append(loaded.tokenizers.src.vocab.eos)
    engine: Engine = ModelEngine([loaded.model], compute_type="float32", rewrite=False)
    if start := prefix.tgt_ids(loaded.tokenizers):
        engine = StartedEngine(engine, start)
    token_bytes = loaded.tokenizers.tgt.token_bytes()
    search = engine.make_search(config, ids_with_meaning, token_bytes, with_scores=True)
    best = search([SentenceRequest(source=ids, max_length=config.max_length.of(len(ids)))])[0][0]
    if not best.tokens:
        raise UsageError(f"{loaded.folder}: no attention to draw: the translation of {sentence[:80]!r} is empty")
    if best.attention is None:
        raise UsageError(f"{loaded.folder}: no attention to draw; a model of kind {loaded.metadata.model.kind}")
    src = loaded.tokenizers.src.ids_to_tokens(ids)
    hyp = loaded.tokenizers.tgt.ids_to_tokens(best.tokens)
    plot_attention(best.attention, src, hyp, output, title=_attention_title(loaded))


def _attention_title(loaded: LoadedModel) -> str:
    """The layer and the heads whose attention the search returns, counted from 1."""
    layer = vars(loaded.model).get("alignment_layer")  # of the models that attend in layers
    of_layer = "" if layer is None else f" of decoder layer {layer + 1}"
    alignment_head = vars(loaded.metadata.model).get("alignment_head")  # of a Transformer
    heads = "mean of its heads" if alignment_head is None else f"head {alignment_head[1] + 1}"
    return f"Attention{of_layer}, {heads}"
