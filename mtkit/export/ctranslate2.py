"""Export of a model folder for CTranslate2, which runs it without mtkit."""

from __future__ import annotations

from pathlib import Path

from mtkit.export.ctranslate2_runner import CTranslate2Runner, Threads
from mtkit.export.ctranslate2_spec import build_spec
from mtkit.export.equivalence import check_equivalence, sample_lines
from mtkit.export.supported_models import CTRANSLATE2
from mtkit.io.files import atomic_folder, translate_write_errors
from mtkit.io.lock import OutputLock
from mtkit.model_folder.config_file import EXPORTED, require_replaceable
from mtkit.model_folder.folder import read_model, write_metadata
from mtkit.models.transformer.model import Transformer

MIN_POSITIONS = 1024  # size of the position table for an encoding without a maximum length


def export_ctranslate2(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """Convert a model to CTranslate2's format and compare the translations of both.

    Args:
        model: a model folder or a finished run.
        folder: the folder to write; an exported model in it is replaced.
        check_file: text for the comparison; see `sample_lines`.

    Returns:
        A sentence with the result of the comparison (see `check_equivalence`).

    Raises:
        UsageError: CTranslate2 does not support this model, or `folder` exists and is no exported model.
        MissingExtraError: ctranslate2 is not installed.
        DataError: the translations differ; nothing is written then.
        BusyError: another process is writing the folder.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    require_replaceable(folder, EXPORTED)
    loaded = read_model(model)
    metadata, tokenizers = loaded.metadata, loaded.tokenizers
    config = CTRANSLATE2.check(metadata.model)
    sample = sample_lines(model, loaded, check_file)
    if not isinstance(loaded.model, Transformer):
        raise ValueError(f"a TransformerConfig built a {type(loaded.model).__name__}")
    max_target_length = metadata.search.max_length.of(metadata.max_source_length) + 2  # with bos and eos
    num_positions = max(MIN_POSITIONS, max_target_length, metadata.max_source_length + 1)
    spec = build_spec(loaded.model, config, tokenizers, num_positions=num_positions)
    spec.validate()
    spec.optimize()
    with OutputLock(folder, make_parents=True), atomic_folder(folder) as temporary:
        with translate_write_errors(temporary):
            spec.save(str(temporary))
        write_metadata(temporary / EXPORTED, metadata, tokenizers)
        return check_equivalence(loaded, CTranslate2Runner(temporary, tokenizers, threads=Threads()), sample)
