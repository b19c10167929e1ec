"""Preview of the training data: tokens, tags and noise as the model will read them, in their micro-batches."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from mtkit.display import count_of
from mtkit.errors import MissingInputError
from mtkit.pipeline.builders import build_loader
from mtkit.pipeline.open_run import run_folder_path
from mtkit.pipeline.run_folder import RunFolder
from mtkit.recipe.sections import Recipe
from mtkit.text.tokenizer import TokenizerPair

AUTO_BATCH_TOKENS = 4096  # where the recipe fits batches to the memory only when training starts


def preview_lines(recipe: Recipe, run_dir: Path | None, count: int) -> list[str]:
    """The first `count` pairs of the training in words: their tokens, and the size of each micro-batch.

    Args:
        run_dir: of the preprocessed text; None: that of the recipe.

    Raises:
        MissingInputError: the text is not preprocessed.
        RecipeError, DataError: as `build_loader`.
    """
    folder = RunFolder(run_folder_path(recipe, run_dir))
    if not folder.lexicon.is_file():
        raise MissingInputError(f"{folder.path}: has no preprocessed text to preview; first run mtkit preprocess")
    recipe = folder.load_recipe()
    if recipe.training.batch_tokens == "auto":
        recipe = replace(recipe, training=replace(recipe.training, batch_tokens=AUTO_BATCH_TOKENS))
    tokenizers = TokenizerPair.load(folder.tokenizer)
    lines: list[str] = []
    with closing(build_loader(recipe, folder.open_train(recipe), tokenizers).updates()) as updates:
        for number, batch in ((number, each) for number, update in enumerate(updates, 1) for each in update.batches):
            real = int(batch.source.real.sum()) + int(batch.target.real.sum())
            padding = 1 - real / (batch.source.real.numel() + batch.target.real.numel())
            size = f"{count_of(batch.num_sentences, 'pair')}, {real:,} tokens, {padding:.0%} padding"
            lines.append(f"update {number}, micro-batch of {size}")
            for row in range(min(count, batch.num_sentences)):
                src = batch.source.ids[row][batch.source.real[row]].tolist()
                tgt = batch.labels[row][batch.target.real[row]].tolist()
                lines += [f"  src: {' '.join(tokenizers.src.ids_to_tokens(src))}"]
                lines += [f"  tgt: {' '.join(tokenizers.tgt.ids_to_tokens(tgt))}"]
                count -= 1
            if not count:
                break
    return lines
