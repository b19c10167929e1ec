"""config.json of a model folder: the root of its integrity, with the hash of every other file and its own checksum.

```
format, mtkit    format number and version of mtkit that wrote it
files            SHA-256 of every other file, by name; a file that is not listed is not a part of the model
training         hash of the keys of the recipe that determine the weights; null if several models were averaged
...              fields of ModelMetadata
sha256           of the lines above
```

The folder of an exported model has the same in mtkit.json. Since the checksum is in the file that it protects, changing
a search setting is one atomic write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mtkit import __version__
from mtkit.errors import DamagedError, FormatError, MissingInputError, MtkitError, UsageError
from mtkit.io.files import changed_files, hash_file, translate_read_errors, write_bytes
from mtkit.io.json_text import parse_json
from mtkit.io.records import DAMAGED, older_format, read_record, write_record
from mtkit.text.tokenizer import model_names

FORMAT = 3  # raised when models of older versions can no longer be read, or new ones not by older versions
WEIGHTS, CONFIG, MODEL_CARD, LEXICON = "model.safetensors", "config.json", "README.md", "lexicon.safetensors"
EXPORTED = "mtkit.json"  # in the folder of an exported model, whose config.json is that of another program

TRAIN_AGAIN = "train it again"
REMEDY = "mtkit train makes the model of a run again; copy or download any other model again"
_EDITED = "search settings are changed in the recipe or with --set, not in this file"


def write_config(path: Path, fields: Mapping[str, Any], hashes: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write config.json as the last file of a folder.

    Args:
        path: config.json, or a file of another name.
        fields: all of its content except format, version, hashes and checksum.
        hashes: SHA-256 of other files in the folder, by name; the hash of any other file is computed.

    Raises:
        ReadWriteError: the file cannot be written.
    """
    others = sorted(other.name for other in path.parent.iterdir() if other.is_file() and other != path)
    files = {name: hashes[name] if name in hashes else hash_file(path.parent / name) for name in others}
    write_record(path, {"format": FORMAT, "mtkit": __version__, "files": files, **fields})


def read_config(path: Path) -> dict[str, Any]:
    """Read config.json.

    Raises:
        MissingInputError: it does not exist.
        FormatError: another version of mtkit wrote it in a format that this one does not read.
        DamagedError: it does not match its checksum, or lists no hash of a file that every model has.
    """
    remedy = f"{_EDITED}; {REMEDY}"
    try:
        fields = read_record(path, remedy=remedy)
        version, writer = fields["format"], fields["mtkit"]
    except (DamagedError, KeyError) as error:
        older = older_format(path)
        if older is None or older[0] == FORMAT:
            raise DamagedError(f"{path}: {DAMAGED}", remedy) from error
        version, writer = older
    if version != FORMAT:
        reason = f"in model format {version}, but mtkit {__version__} reads format {FORMAT}"
        raise FormatError(path, writer, reason, TRAIN_AGAIN)
    files = fields.get("files")
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise DamagedError(f"{path}: damaged: files is no table of names and hashes", remedy)
    tokenizer = fields.get("tokenizer")  # its values are checked elsewhere
    shared = tokenizer.get("shared") if isinstance(tokenizer, dict) else None
    needed = {WEIGHTS, MODEL_CARD, *(model_names(shared) if isinstance(shared, bool) else ())}
    if unlisted := sorted(needed - files.keys()):
        raise DamagedError(f"{path}: damaged: no hash of {', '.join(unlisted)}", remedy)
    return fields


def require_replaceable(folder: Path, name: str = CONFIG) -> None:
    """Refuse to replace a folder with files that mtkit did not write, such as the model of another program.

    Args:
        folder: where a model is to be written; nothing may be there, or a model folder with its own files alone.

    Raises:
        UsageError: something else is there.
        ReadWriteError: the folder cannot be read.
    """
    if not folder.exists():
        return
    kind = "an exported model" if name == EXPORTED else "a model folder"
    files = listed_files(folder, name)
    if files is None:
        raise UsageError(f"{folder}: exists and is not {kind} of mtkit; choose another name")
    with translate_read_errors(folder):
        present = sorted(path.name for path in folder.iterdir())
    if others := [each for each in present if each not in (name, *files)]:
        raise UsageError(f"{folder / others[0]}: no file of {kind}, which would be replaced; move it away")


def is_part_of_model(file: Path) -> bool:
    """Return whether a file is listed in the config.json beside it, or in mtkit.json, or is that file itself.

    Raises:
        ReadWriteError: config.json or mtkit.json cannot be read.
    """
    listed = {name: listed_files(file.parent, name) for name in (CONFIG, EXPORTED)}
    return any(files is not None and file.name in (name, *files) for name, files in listed.items())


def listed_files(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the table of files in the metadata of a folder, damaged or not; None if mtkit did not write the folder."""
    try:
        with translate_read_errors(folder):
            fields = parse_json((folder / name).read_bytes())
    except (MissingInputError, ValueError, NotADirectoryError):
        return None
    files = fields.get("files") if isinstance(fields, dict) and "mtkit" in fields else None
    return files if isinstance(files, dict) else None


def damaged_files(folder: Path) -> list[str]:
    """Return the names of files that are missing from a model folder, or differ from the hashes in its config.json.

    Raises:
        MissingInputError, FormatError, DamagedError: as `read_config`.
    """
    return changed_files(folder, read_config(folder / CONFIG)["files"])


def restore_lexicon(folder: Path, source: Path) -> bool:
    """Copy the lexicon of a model folder from `source` if that has the recorded hash; return whether it has.

    Raises:
        MissingInputError, FormatError, DamagedError: as `read_config`.
        ReadWriteError: a file cannot be read or written.
    """
    recorded = read_config(folder / CONFIG)["files"].get(LEXICON)
    with translate_read_errors(source, allow_stream=True):
        if not source.is_file() or hash_file(source) != recorded:
            return False
        content = source.read_bytes()
    write_bytes(folder / LEXICON, content)
    return True


def verify_model(folder: Path) -> None:
    """Compare the files of a model folder with the hashes in its config.json.

    The lexicon may be missing, since a model translates without it.

    Raises:
        MissingInputError, FormatError: as `read_config`.
        DamagedError: files are missing or changed; all are listed.
    """
    damaged = [file for file in damaged_files(folder) if file != LEXICON or (folder / file).exists()]
    if damaged:
        listed = [f"{file} {'not as written' if (folder / file).is_file() else 'is missing'}" for file in damaged]
        raise DamagedError(f"{folder}: damaged: {', '.join(listed)}", REMEDY)


@contextmanager
def verified(folder: Path) -> Iterator[None]:
    """Verify a model folder in a thread while the block reads it: hashing takes as long as building the model.

    Raises:
        MissingInputError, DataError: as `verify_model`, also instead of an error of the block, which damage may cause.
    """
    with ThreadPoolExecutor(1) as executor:
        verification = executor.submit(verify_model, folder)
        try:
            yield
        except (MtkitError, RuntimeError, ValueError, MemoryError):  # damage explains those of other libraries too
            verification.result()
            raise
        verification.result()


def update_fields(folder: Path, **changes: Any) -> None:
    """Change fields of config.json in one atomic write; nothing is written if they have these values.

    Raises:
        MissingInputError, FormatError, DamagedError: as `read_config`.
        ReadWriteError: the file cannot be written.
    """
    fields = read_config(folder / CONFIG)
    if any(fields[key] != value for key, value in changes.items()):
        write_record(folder / CONFIG, {**fields, **changes})


def update_model_card(folder: Path, card: str) -> None:
    """Change the model card. A process that is killed in between leaves a card that this function makes again.

    Raises:
        MissingInputError, FormatError, DamagedError: as `read_config`.
        ReadWriteError: a file cannot be written.
    """
    path, content = folder / MODEL_CARD, card.encode()
    files = read_config(folder / CONFIG)["files"]
    with translate_read_errors(path):
        is_current = path.is_file() and path.read_bytes() == content
    if not is_current:
        write_bytes(path, content)
    update_fields(folder, files={**files, MODEL_CARD: hashlib.sha256(content).hexdigest()})


def model_hash(folder: Path) -> str:
    """Return the hash of a model, from the hashes in its config.json.

    The model card is left out, since it changes with new scores.

    Raises:
        MissingInputError, FormatError, DamagedError: as `read_config`.
    """
    fields = read_config(folder / CONFIG)
    files = {name: digest for name, digest in fields["files"].items() if name != MODEL_CARD}
    return hashlib.sha256(json.dumps({**fields, "files": files}, sort_keys=True).encode()).hexdigest()
