"""Translations of a system: the models of a variant, changed after training or with another search."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from mtkit.compression.compress import CompressionOptions, compress_model
from mtkit.corpus.config import HeldOutPairs, MonolingualFile
from mtkit.errors import DataError
from mtkit.evidence.claim import SystemConfig
from mtkit.io.files import hash_file, write_text
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.model_folder.folder import read_model
from mtkit.model_folder.model_card import write_changed_copy
from mtkit.models.config import ModelConfig
from mtkit.pipeline.average import average_models
from mtkit.recipe import schema
from mtkit.recipe.located import with_location
from mtkit.recipe.paths import to_plain
from mtkit.recipe.tree import apply_overrides
from mtkit.study.runs import StudyRun
from mtkit.text.lines import read_lines
from mtkit.text.source_prefix import SourcePrefix
from mtkit.training.checkpoints.checkpoint import list_checkpoints
from mtkit.training.weights import weights
from mtkit.translate.load import load_translator
from mtkit.translate.reference_text import ReferenceText, read_reference_text


def hyps_of_system(run: StudyRun, system: SystemConfig, name: str) -> Path:
    """File of the translations of a test set, made once for equal models, texts and settings, and kept beside the run.

    Raises:
        RecipeError, UsageError: the system is not possible with this model.
        DataError: the run has no text to choose attention heads by, or a file is damaged.
    """
    test, search = run.recipe.corpus.test[name], run.recipe.search
    prefix = SourcePrefix(tag=system.tag or test.tag, prefix=test.prefix)
    files = [run.folder.model / WEIGHTS, test.src]
    if system.compress is not None and system.compress.to == "heads":  # the valid set determines what is removed
        files += [_valid_set(run).src, _valid_set(run).tgt]
    key = json.dumps([*map(hash_file, files), asdict(system), to_plain(search), asdict(prefix)], sort_keys=True)
    folder = run.folder.path / "evidence" / sha256(key.encode()).hexdigest()[:16]
    path = folder / "test.hyp"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        model = _model(run, system, folder / "model")
        translator = load_translator(model, search=search, search_overrides=system.search).with_source_prefix(prefix)
        hyps = [translation.hyp for translation in translator.translate(list(read_lines(test.src)))]
        write_text(path, "".join(f"{hyp}\n" for hyp in hyps))
    return path


@dataclass(frozen=True)
class _ModelOverrides:
    model: ModelConfig


def _model(run: StudyRun, system: SystemConfig, changed: Path) -> Path:
    """Folder of the system's model: that of the run, or a changed copy."""
    if system.compress is not None:
        to, most_important = system.compress.to, system.compress.most_important
        text = valid_text(run) if to == "heads" else None
        options = CompressionOptions(to=to, fraction=system.compress.fraction, text=text, most_important=most_important)
        compress_model(run.folder.model, changed, options)
        return changed
    if system.average is not None:
        average_models(list(list_checkpoints(run.folder.checkpoints).values())[-system.average :], changed)
        return changed
    if system.model:  # the weights stay, so that they must fit both settings
        loaded, here = read_model(run.folder.model), Path.cwd()
        errors: list[str] = []
        tree = with_location({"model": to_plain(loaded.metadata.model)}, "config.json", here)
        settings: _ModelOverrides = schema.build(
            _ModelOverrides, apply_overrides(tree, system.model, here, errors), errors
        )
        metadata = replace(loaded.metadata, model=settings.model)
        write_changed_copy(changed, loaded, metadata, weights(loaded.model), loaded.tokenizers)
        return changed
    return run.folder.model


def _valid_set(run: StudyRun) -> HeldOutPairs | MonolingualFile:
    valid = run.recipe.corpus.valid_sets
    if not valid:
        raise DataError(f"{run.label}: attention heads are analysed on a valid set; add corpus.valid")
    return valid[0]


def valid_text(run: StudyRun) -> ReferenceText:
    """Sentence pairs of the valid set, with its prefix.

    Raises:
        DataError: the run has none.
    """
    files = _valid_set(run)
    return read_reference_text(files.src, files.tgt, files)
