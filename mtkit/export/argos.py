"""Export as a package of Argos Translate, which LibreTranslate serves too: a zip with a CTranslate2 model."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from mtkit import __version__
from mtkit.errors import DataError, UsageError
from mtkit.export.ctranslate2 import convert
from mtkit.export.equivalence import MIN_EQUAL_SHARE, lost_settings, sample_lines
from mtkit.io.files import temporary_folder, write_atomically
from mtkit.io.lock import OutputLock
from mtkit.model_folder.config_file import MODEL_CARD
from mtkit.model_folder.folder import LoadedModel
from mtkit.text.language_tags import language_name
from mtkit.text.normalise import SPACE_MARK
from mtkit.translate.load import read_translation_model

SUFFIX, METADATA, PIECES = ".argosmodel", "metadata.json", "sentencepiece.model"
MODEL_FILES = ("config.json", "model.bin", "shared_vocabulary.json", "source_vocabulary.json", "target_vocabulary.json")
LEFT_TO_ARGOS = (
    "Argos Translate searches with 4 beams and length penalty 0.2, and writes _ as a space\n"
    "The package has no sentence splitter: Argos Translate 1.11 takes that of MiniSBD, which it downloads when it "
    "translates for the first time; without a network, put its cache there first"
)


def export_argos(model: Path, output: Path, *, check_file: Path | None = None) -> str:
    """Write a package of Argos Translate; it has passed the comparison of `export_ctranslate2`.

    Args:
        model: a model folder or a finished run.
        output: NAME.argosmodel; an earlier package of mtkit is replaced.
        check_file: text for the comparison; see `sample_lines`.

    Returns:
        A sentence with the result of the comparison, and one about what Argos Translate does by itself.

    Raises:
        UsageError: Argos Translate has no place for a part of the model, or the output exists and is no such package.
        Others: as `export_ctranslate2`.
    """
    if output.suffix != SUFFIX:
        raise UsageError(f"{output}: packages of Argos Translate are named NAME{SUFFIX}")
    if output.exists() and not _is_mtkit_package(output):
        raise UsageError(f"{output}: exists and is no package that mtkit wrote; choose another name")
    loaded = read_translation_model(model).load()
    pieces = loaded.tokenizers.src.sentencepiece_model
    if pieces is None:
        raise UsageError("tokenizer.model_type: Argos Translate has only sentencepiece models of characters")
    sides = (loaded.tokenizers.src, loaded.tokenizers.tgt)
    if loaded.metadata.requires_tag or loaded.tokenizers.languages or any(side.before for side in sides):
        raise UsageError(f"{model}: needs a token before each source or translation, which Argos Translate cannot give")
    with OutputLock(output, make_parents=True), temporary_folder(output.with_suffix(".model")) as folder:
        summary = convert(model, folder / "model", check_file=check_file)
        _check_text(loaded, pieces, sample_lines(model, loaded, check_file).lines)
        with write_atomically(output) as temporary:
            _write_package(temporary, folder / "model", loaded, pieces)
    return "\n".join([summary, LEFT_TO_ARGOS, *lost_settings("argos", "Argos Translate", loaded.metadata.search)])


def _is_mtkit_package(path: Path) -> bool:
    """Return whether a file is a package that mtkit wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(f"/{METADATA}")]
            return len(names) == 1 and "mtkit" in json.loads(archive.read(names[0]))
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _check_text(loaded: LoadedModel, pieces: bytes, lines: Sequence[str]) -> None:
    """Compare the tokens of Argos Translate, and its text of tokens, with those of the tokenizers.

    Raises:
        DataError: too many lines differ; the first one is in the message.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    src, tgt = loaded.tokenizers.src, loaded.tokenizers.tgt
    prepared = [loaded.tokenizers.prepare("src", line) for line in lines]
    names, unknown = set(src.model_pieces), src.model_pieces[src.vocab.unk]
    different = []
    for line, ids in zip(prepared, src.encode(prepared), strict=True):
        tokens = [piece if piece in names else unknown for piece in processor.encode(line, out_type=str)]
        if tokens != [src.model_pieces[each] for each in ids]:
            different.append(line)
    for line, ids in zip(prepared, tgt.encode(prepared), strict=True):
        text = processor.decode_pieces([tgt.model_pieces[each] for each in ids]).replace(SPACE_MARK, " ")
        if tgt.vocab.unk not in ids and text.strip() != tgt.decode([ids])[0].strip():
            different.append(line)
    if len(different) > (1 - MIN_EQUAL_SHARE) * 2 * len(prepared):
        raise DataError(
            f"Argos Translate reads or writes the tokens of {different[0]!r} differently; nothing was written"
        )


def _write_package(path: Path, model: Path, loaded: LoadedModel, pieces: bytes) -> None:
    src_lang, tgt_lang = loaded.metadata.src_lang, loaded.metadata.tgt_lang
    description = {
        "package_version": "1.0",
        "argos_version": "1.9",
        "from_code": src_lang,
        "from_name": language_name(src_lang),
        "to_code": tgt_lang,
        "to_name": language_name(tgt_lang),
        "mtkit": __version__,
    }
    root = f"translate-{src_lang}_{tgt_lang}-1_0"
    present = [name for name in MODEL_FILES if (model / name).is_file()]
    files = {
        METADATA: json.dumps(description, indent=2).encode(),
        PIECES: pieces,
        MODEL_CARD: (loaded.folder / MODEL_CARD).read_bytes(),
        **{f"model/{name}": (model / name).read_bytes() for name in present},
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(f"{root}/{name}"), content)
