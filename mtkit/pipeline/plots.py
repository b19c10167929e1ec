"""Pictures of a run: its learning curve, and what the model attended to while it translated a sentence."""

from __future__ import annotations

from pathlib import Path

import torch

from mtkit.corpus.order.collate import collate_source
from mtkit.errors import DataError, UsageError
from mtkit.model_folder.folder import read_model
from mtkit.pipeline.run_folder import Run
from mtkit.plot import attention as attention_map
from mtkit.plot.curves import plot_curves
from mtkit.plot.picture import is_installed
from mtkit.search.interface import Request
from mtkit.text.lines import read_lines
from mtkit.translate.translator import symbols_of

LENGTH_SHOWN = range(6, 16)  # words of a sentence whose map can be read at a glance


def draw_pictures(run: Run) -> None:
    """Leave `learning_curve.png` and `attention.png` in the run folder, where matplotlib is installed."""
    if not is_installed():
        run.say("pictures", "not drawn; pip install 'mtkit[plot]'")
        return
    curve = run.folder.path / "learning_curve.png"
    try:
        plot_curves([run.folder.path], curve)
        sentence = _sentence(run)
        if sentence:
            plot_attention(run.folder.path, sentence, run.folder.path / "attention.png")
    except (DataError, UsageError) as error:  # a log without updates, a model without attention
        run.say("pictures", str(error))


def _sentence(run: Run) -> str | None:
    """A test sentence of a size that can be looked at, or the first one."""
    first: str | None = None
    for files in run.recipe.corpus.test.values():
        for line in read_lines(files.src):
            if len(line.split()) in LENGTH_SHOWN:
                return line
            first = first or line.strip() or None
    return first


@torch.inference_mode()
def plot_attention(model: Path, sentence: str, output: Path) -> None:
    """Translate a sentence and draw the attention over it, the mean of the heads of the last layer.

    Args:
        model: a model folder or a run folder.
        sentence: one line of text.
        output: the PNG to write.

    Raises:
        UsageError: the model has no attention, or the sentence no words.
        MissingInputError, DataError, MissingExtraError, ReadWriteError: as reading the model and drawing.
    """
    loaded = read_model(model)
    ids = loaded.tokenizers.src.encode([sentence])[0]
    if not sentence.strip() or not ids:
        raise UsageError("there is nothing to translate: the sentence is empty")
    config = loaded.description.search
    symbols = symbols_of(loaded.tokenizers.tgt, allow_unknown=config.allow_unknown)
    search = config.build(symbols, with_attention=True)
    source = collate_source([ids], loaded.tokenizers.src.vocab)
    best = search(loaded.model, Request.of(source, torch.tensor([config.max_length.of(len(ids) + 1)])))[0][0]
    if best.attention is None or not best.tokens:
        raise UsageError(f"{loaded.folder}: no attention to draw; a model of kind {loaded.description.model.kind}")
    src = loaded.tokenizers.src.pieces([*ids, loaded.tokenizers.src.vocab.eos])
    hyp = loaded.tokenizers.tgt.pieces(best.tokens)
    attention_map.plot_attention(best.attention.float().numpy(), src, hyp, output)
