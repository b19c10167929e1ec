"""Export of a model folder for CTranslate2, which runs it without mtkit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.errors import DataError, UsageError, require_extra
from mtkit.export.ctranslate2_spec import build_spec
from mtkit.export.equivalence import check_equivalence, lost_settings, sample_lines, stated
from mtkit.export.supported_models import CTRANSLATE2
from mtkit.inference.support import ComputeType
from mtkit.io.files import atomic_folder, translate_write_errors
from mtkit.io.lock import OutputLock
from mtkit.model_folder.config_file import EXPORTED, require_replaceable
from mtkit.model_folder.folder import write_metadata
from mtkit.models.transformer.model import Transformer
from mtkit.search.config import SearchConfig
from mtkit.search.support import options, unsupported
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.engine import special_ids
from mtkit.translate.load import read_translation_model

MIN_POSITIONS = 1024  # size of the position table for an encoding without a maximum length


def export_ctranslate2(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """Convert a model to CTranslate2's format and compare the translations of both.

    Args:
        model: a model folder or a finished run.
        folder: the folder to write; an exported model in it is replaced.
        check_file: text for the comparison; see `sample_lines`.

    Returns:
        Sentences with the result of the comparison (see `check_equivalence`) and about settings of the search.

    Raises:
        UsageError: CTranslate2 does not support this model, or `folder` exists and is no exported model.
        MissingExtraError: ctranslate2 is not installed.
        DataError: the translations differ; nothing is written then.
        BusyError: another process is writing the folder.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    result, search = convert(model, folder, check_file=check_file), read_translation_model(model).metadata.search
    told = ", ".join(f"{name}={value}" for name, value in options("ctranslate2", search).items())
    limits = stated(search, ["max_length", "min_length"])
    callers = f"CTranslate2 has the search settings of each call; this model's are {told}; limits of length: {limits}"
    return "\n".join([result, callers, *lost_settings("ctranslate2", search)])


def convert(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """The conversion of `export_ctranslate2`, without sentences about the search."""
    require_replaceable(folder, EXPORTED)
    loaded = read_translation_model(model).load()
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


BATCH_TOKENS = 1_024  # measured (tools/benchmarks/NOTES.md): 32 to 64 captions are its fastest batches
TYPES: dict[ComputeType, str] = {"auto": "default", "float32": "float32", "bf16": "bfloat16", "int8": "int8"}


@dataclass(frozen=True, kw_only=True)
class Threads:
    """Parallelism of CTranslate2.

    Attributes:
        inter_threads: number of batches translated in parallel.
        intra_threads: threads of each batch; 0: CTranslate2 chooses.
        batch_tokens: source tokens of a batch, into which CTranslate2 sorts and splits a request.
    """

    inter_threads: int = 1
    intra_threads: int = 0
    batch_tokens: int = BATCH_TOKENS


class CTranslate2Runner:
    """An exported model.

    Attributes:
        compute_type: the number format of the computation, by CTranslate2's name.
    """

    def __init__(
        self, folder: Path, tokenizers: TokenizerPair, *, compute_type: ComputeType = "float32", threads: Threads
    ) -> None:
        """Load the model.

        Raises:
            MissingExtraError: ctranslate2 is not installed.
            UsageError: CTranslate2 does not support the compute type on this machine.
        """
        with require_extra("export", "ctranslate2"):
            import ctranslate2
        name = TYPES[compute_type]
        supported = ctranslate2.get_supported_compute_types("cpu")
        if name != "default" and name not in supported:
            names = ", ".join(sorted(supported))
            raise UsageError(f"CTranslate2 does not support compute type {name} on this machine; choose from: {names}")
        self._translator = ctranslate2.Translator(
            str(folder),
            device="cpu",
            compute_type=name,
            inter_threads=threads.inter_threads,
            intra_threads=threads.intra_threads,
        )
        self.compute_type: str = self._translator.compute_type
        self._threads = threads
        self._src_tokens = tokenizers.src.ids_to_tokens(range(tokenizers.src.vocab.size))
        self._tgt_tokens = tokenizers.tgt.ids_to_tokens(range(tokenizers.tgt.vocab.size))
        self._tgt_ids = {token: i for i, token in enumerate(self._tgt_tokens)}
        self._unk, self._banned = tokenizers.tgt.vocab.unk, special_ids(tokenizers.tgt).banned

    def translate(self, sources: Sequence[Sequence[int]], search: SearchConfig) -> list[list[int]]:
        """The best translation of each source, all as ids without the end of sentence; empty for an empty source.

        CTranslate2 has one pair of length limits for a call: the widest of the sources'.

        Raises:
            UsageError: names the key for whose value CTranslate2 has no option.
            DataError: a sentence is longer than the exported position table.
        """
        lengths = [len(ids) for ids in sources if ids]
        options = search_options(search) | {
            "max_decoding_length": max(map(search.max_length.of, lengths), default=0) + 1,  # with the end of sentence
            "min_decoding_length": min(map(search.min_length.of, lengths), default=0),
            "suppress_sequences": [[self._tgt_tokens[i]] for i in self._banned if i != self._unk],
            "max_input_length": 0,
        }
        tokens = [[self._src_tokens[i] for i in ids] for ids in sources if ids]
        try:
            results = iter(
                self._translator.translate_batch(
                    tokens, max_batch_size=self._threads.batch_tokens, batch_type="tokens", **options
                )
            )
        except RuntimeError as error:
            if "position encodings" not in str(error):
                raise
            raise DataError(f"a sentence is longer than the exported position table: {str(error).lower()}") from error
        return [[self._tgt_ids[each] for each in next(results).hypotheses[0]] if ids else [] for ids in sources]


def search_options(search: SearchConfig) -> dict[str, Any]:
    """Options of `ctranslate2.Translator.translate_batch` for a search configuration.

    Raises:
        UsageError: names the keys for whose values CTranslate2 has no option.
    """
    if keys := unsupported("ctranslate2", search, with_around=False):
        raise UsageError(f"{stated(search, keys)}: CTranslate2 has no option for this; measure without --peer")
    return options("ctranslate2", search)
