"""Plots of a run: the learning curve, and the attention map of a translated sentence."""

from __future__ import annotations

from pathlib import Path

import torch

from mtkit.corpus.order.collate import collate_source
from mtkit.errors import DataError, UsageError
from mtkit.model_folder.folder import read_model
from mtkit.pipeline.open_run import Run
from mtkit.plot import attention as attention_map
from mtkit.plot.curves import plot_curves
from mtkit.plot.figure import is_installed
from mtkit.search.interface import SearchRequest
from mtkit.text.lines import read_lines
from mtkit.translate.translator import special_ids

PLOTTED_LENGTHS = range(6, 16)  # words of a sentence whose attention map is readable


def draw_plots(run: Run) -> None:
    """Draw `learning_curve.png` and `attention.png` in the run folder, if matplotlib is installed.

    A plot that cannot be drawn is reported, not raised: the results of the run are complete without it.

    Raises:
        ReadWriteError: a plot cannot be written.
    """
    if not is_installed():
        run.notify("plots", "not drawn; pip install 'mtkit[plot]'")
        return
    curve = run.folder.path / "learning_curve.png"
    try:
        plot_curves([run.folder.path], curve)
        sentence = _example_sentence(run)
        if sentence:
            plot_sentence_attention(run.folder.path, sentence, run.folder.path / "attention.png")
    except (DataError, UsageError) as error:  # a log without updates, a model without attention
        run.notify("plots", str(error))


def _example_sentence(run: Run) -> str | None:
    """Return a test sentence of a readable length, else the first one that is not blank."""
    first: str | None = None
    for files in run.recipe.corpus.test.values():
        for line in read_lines(files.src):
            if len(line.split()) in PLOTTED_LENGTHS:
                return line
            first = first or line.strip() or None
    return first


@torch.inference_mode()
def plot_sentence_attention(model: Path, sentence: str, output: Path) -> None:
    """Translate a sentence and draw its attention map: the mean over the heads of the last layer.

    Args:
        model: a model folder or a run folder.
        sentence: one line of text.
        output: the PNG file to write.

    Raises:
        UsageError: the model has no attention, or the sentence is empty.
        MissingInputError, DataError: the model cannot be read.
        MissingExtraError: matplotlib is not installed.
        ReadWriteError: the plot cannot be written.
    """
    loaded = read_model(model)
    ids = loaded.tokenizers.src.encode([sentence])[0]
    if not sentence.strip() or not ids:
        raise UsageError("there is nothing to translate: the sentence is empty")
    config = loaded.metadata.search
    ids_with_meaning = special_ids(loaded.tokenizers.tgt, allow_unknown=config.allow_unknown)
    search = config.build(ids_with_meaning, with_attention=True)
    source = collate_source([ids], loaded.tokenizers.src.vocab)
    best = search(loaded.model, SearchRequest.of(source, torch.tensor([config.max_length.of(len(ids) + 1)])))[0][0]
    if best.attention is None or not best.tokens:
        raise UsageError(f"{loaded.folder}: no attention to draw; a model of kind {loaded.metadata.model.kind}")
    src = loaded.tokenizers.src.ids_to_tokens([*ids, loaded.tokenizers.src.vocab.eos])
    hyp = loaded.tokenizers.tgt.ids_to_tokens(best.tokens)
    attention_map.plot_attention(best.attention.float().numpy(), src, hyp, output)
