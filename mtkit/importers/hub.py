"""Models by name from the hub of Hugging Face, through the package huggingface_hub and its cache."""

from __future__ import annotations

import re
from pathlib import Path

from mtkit.display import printable
from mtkit.errors import MissingInputError, require_extra
from mtkit.importers.foreign_folder import INDEX, PICKLED, SAFETENSORS

_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
FILES = ("*.json", "*.spm", "*.model", "README.md", SAFETENSORS, INDEX, "model-*.safetensors")  # PICKLED comes last


def is_hub_name(model: Path) -> bool:
    """Return whether MODEL is no folder here, and has the form ORGANISATION/NAME."""
    return not model.exists() and _NAME.fullmatch(str(model)) is not None


def download(name: str) -> Path:
    """The folder of a model in the cache; its files are downloaded unless HF_HUB_OFFLINE is set.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        MissingInputError: the hub cannot be reached, or has no such model; the message says how to bring it by hand.
    """
    by_hand = (
        f"where a browser reaches it, save all files of https://huggingface.co/{name}/tree/main in a folder, copy that "
        "here, and give its name"
    )
    with require_extra("hub", "huggingface_hub", instead=by_hand):
        import huggingface_hub
        from huggingface_hub.errors import (
            HfHubHTTPError,
            HFValidationError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
        )
    try:
        folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=list(FILES)))
        if not any(folder.glob("*.safetensors")):
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=[*FILES, PICKLED]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = printable(str(error).strip().partition("\n")[0], 200)
        raise MissingInputError(
            f"{name}: no such folder, and not loaded from the hub ({type(error).__name__}: {reason}); {by_hand}"
        ) from error
    return folder
