"""The other processes of a training: they wait until the first has prepared the run folder, and write nothing to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mtkit.corpus.store import Store
from mtkit.pipeline.corpus import Stores
from mtkit.pipeline.run_folder import Run, RunFolder, run_folder_path
from mtkit.pipeline.training import train_model
from mtkit.recipe.recipe import Recipe, load_saved
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.distributed.process_group import Ranks
from mtkit.training.monitoring.log import Log, Silent


def follow(recipe: Recipe, run_dir: Path | None, ranks: Ranks) -> Path:
    """Train beside the first process, in the same run folder; gives that folder.

    Raises:
        MtkitError: as `training.loop.train`.
    """
    ranks.wait()
    folder = RunFolder(run_folder_path(recipe, run_dir))
    with TemporaryDirectory() as own, Log(Path(own) / "log.jsonl", Silent()) as log:
        run = Run(load_saved(folder.recipe), folder, log)
        pair = TokenizerPair.load(folder.tokenizer)
        tokenizers = replace(pair, config=replace(pair.config, sampling=run.recipe.tokenizer.sampling))
        train = [Store(folder.train(number)) for number in range(len(run.recipe.corpus.train))]
        valid = None if run.recipe.corpus.valid is None else Store(folder.valid)
        train_model(run, tokenizers, Stores(train, valid, folder.lexicon), ranks)
    return folder.path
