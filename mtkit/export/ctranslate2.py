"""Model folder -> a folder that CTranslate2 runs, here or without mtkit."""

from __future__ import annotations

from pathlib import Path

from mtkit.errors import UsageError
from mtkit.export.agreement import check_agreement, sample_lines
from mtkit.export.ctranslate2_rules import check
from mtkit.export.ctranslate2_spec import specification
from mtkit.io.files import build_folder, writing
from mtkit.model_folder.exported import is_exported, write_belongings
from mtkit.model_folder.folder import read_model
from mtkit.models.transformer.model import Transformer
from mtkit.translate.engines.ctranslate2 import CTranslate2Engine, Threads

LEAST_POSITIONS = 1024  # tabulated for a model whose own positions have no end


def export_ctranslate2(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """Write the model for CTranslate2 and translate some lines with both; gives a sentence on their agreement.

    Args:
        model: a model folder or a finished run.
        folder: is made; an exported model that is there is replaced.
        check_file: text to compare with; see `sample_lines`.

    Raises:
        UsageError: CTranslate2 cannot hold this model, or `folder` is there and is no exported model.
        MissingExtraError: ctranslate2 is not installed.
        DataError: the translations do not agree; nothing is written then.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    if folder.exists() and not is_exported(folder):
        raise UsageError(f"{folder}: is there and is no exported model; choose another name")
    loaded = read_model(model)
    description, tokenizers = loaded.description, loaded.tokenizers
    config = check(description.model)
    sample = sample_lines(model, loaded, check_file)
    if not isinstance(loaded.model, Transformer):
        raise ValueError(f"{type(loaded.model).__name__} of a TransformerConfig")
    longest = description.search.max_length.of(description.longest_source) + 2  # with bos and eos
    positions = max(LEAST_POSITIONS, longest, description.longest_source + 1)
    spec = specification(loaded.model, config, tokenizers, positions=positions)
    spec.validate()
    spec.optimize()
    with build_folder(folder) as temporary:
        with writing(temporary):
            spec.save(str(temporary))
        write_belongings(temporary, description, tokenizers)
        engine = CTranslate2Engine(temporary, tokenizers, compute_type="float32", threads=Threads())
        return check_agreement(loaded, engine, sample)
