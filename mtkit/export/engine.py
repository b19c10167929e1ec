"""The engine of a translation: mtkit's own, or CTranslate2 with an export that is kept beside the model."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mtkit.assembly.translator import search_config
from mtkit.errors import BusyError, DamagedError, DataError, FormatError, MissingExtraError, ReadWriteError, UsageError
from mtkit.export.ctranslate2 import export_ctranslate2
from mtkit.export.supported_models import CTRANSLATE2
from mtkit.hardware import default_device
from mtkit.io.files import translate_write_errors
from mtkit.io.lock import OutputLock
from mtkit.model_folder.config_file import EXPORTED, verify_model
from mtkit.model_folder.exported import is_exported, model_hash
from mtkit.model_folder.folder import find_model, read_metadata
from mtkit.translate.engines.ctranslate2 import search_options

EngineName = Literal["torch", "ctranslate2", "auto"]
NOT_SERVED = (UsageError, MissingExtraError, DataError, BusyError, ReadWriteError)  # auto goes on with torch
HASH_DIGITS = 16  # of a model's hash, in the name of its export
_HASH = f"[0-9a-f]{{{HASH_DIGITS}}}"


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """The options of a translation that decide which engine can serve it.

    Attributes:
        models: paths of one model, or of an ensemble.
        search_overrides: `search.KEY=VALUE` each.
        device: None: a GPU if there is one.
        own_features: names of options in use that only mtkit's own engine has.
    """

    models: Sequence[Path]
    search_overrides: Sequence[str] = ()
    device: str | None = None
    own_features: Sequence[str] = ()


def serving_models(engine: EngineName, request: TranslationRequest) -> tuple[list[Path], str | None]:
    """Choose the models that serve a request: those of the request, or an export of its model.

    Returns:
        Paths for `load_translator`, and a sentence that says what was chosen; None if there was no choice.

    Raises:
        UsageError, MissingExtraError, DataError, BusyError, ReadWriteError: CTranslate2 is requested and cannot serve
            the request, or its export cannot be made; `auto` returns the request's models with the reason instead.
        MissingInputError, DamagedError, FormatError: the model cannot be read.
        RecipeError: a search setting is invalid.
    """
    models = list(request.models)
    if engine == "torch" or any(is_exported(model) for model in models):
        return models, None
    if engine == "auto" and request.device is None and default_device().type != "cpu":
        return models, "engine: torch, since CTranslate2 would run on the CPU"
    try:
        _check(request)
        folder, is_new = cached_export(models[0])
    except NOT_SERVED as error:
        if engine == "ctranslate2" or isinstance(error, DamagedError | FormatError):
            raise
        return models, f"engine: torch, since CTranslate2 cannot serve this: {error}"
    return [folder], f"engine: CTranslate2, with {folder}{' (exported)' if is_new else ''}"


def cached_export(model: Path) -> tuple[Path, bool]:
    """Return the export of a model for CTranslate2, and whether it had to be made; exports of former models go.

    The folder is `.NAME.ctranslate2-HASH` beside the model folder, or in a folder for this model in the user's cache if
    that place is read-only.

    Raises:
        UsageError, DataError, MissingExtraError, BusyError, MissingInputError, ReadWriteError: as `export_ctranslate2`.
    """
    source = find_model(model).resolve()
    parent = source.parent if os.access(source.parent, os.W_OK) else _user_cache(source)
    prefix = f".{source.name}.ctranslate2-"
    folder = parent / f"{prefix}{model_hash(source)[:HASH_DIGITS]}"
    if _is_intact(folder):
        return folder, False
    if folder.exists():  # damaged; only this function writes here
        with OutputLock(folder):
            shutil.rmtree(folder)
    export_ctranslate2(model, folder)
    for each in parent.iterdir():  # the hash tells exports of this model from those of one named NAME.ctranslate2-...
        is_own = each.name.startswith(prefix) and re.fullmatch(_HASH, each.name.removeprefix(prefix)) is not None
        if is_own and each != folder and is_exported(each):
            shutil.rmtree(each, ignore_errors=True)
    return folder, True


def _check(request: TranslationRequest) -> None:
    """Check all that can be known before the export.

    Raises:
        UsageError, MissingExtraError: CTranslate2 cannot serve the request.
        RecipeError: a search setting is invalid.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise MissingExtraError("export", "ctranslate2")
    if len(request.models) > 1:
        raise UsageError("--ensemble needs the engine torch")
    if request.device not in (None, "cpu"):
        raise UsageError(f"--device {request.device} needs the engine torch")
    for feature in request.own_features:
        raise UsageError(f"{feature} needs the engine torch")
    metadata = read_metadata(find_model(request.models[0]))
    CTRANSLATE2.check(metadata.model)
    search_options(search_config(metadata.search, request.search_overrides))


def _is_intact(folder: Path) -> bool:
    """Return whether the folder is a complete and undamaged export."""
    if not is_exported(folder):
        return False
    try:
        verify_model(folder, EXPORTED)
    except DataError:
        return False
    return True


def _user_cache(model: Path) -> Path:
    """Return a folder in the user's cache for the exports of this model alone, since many models have the same name."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "mtkit" / hashlib.sha256(os.fsencode(model)).hexdigest()[:HASH_DIGITS]
    with translate_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder
