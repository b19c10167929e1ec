"""Files of a model of another program: tables in JSON, weights, and the head of the model card.

A model is a folder, or the name of one on the hub of Hugging Face, which comes through the package huggingface_hub and
its cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.display import printable
from mtkit.errors import DataError, MissingInputError, RecipeError, require_extra
from mtkit.importers.torch_file import read_torch_file
from mtkit.io.files import read_file
from mtkit.io.json_text import parse_json
from mtkit.io.safetensors_file import map_tensors
from mtkit.recipe.yaml_reader import read_yaml

GENERATION, TOKENIZER_SETTINGS = "generation_config.json", "tokenizer_config.json"
SAFETENSORS, PICKLED = "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"  # after either name: its parts
HUB_FILES = ("*.json", "*.spm", "*.model", "README.md", SAFETENSORS, "model-*.safetensors")
PICKLED_FILES = (PICKLED, "pytorch_model-*.bin")  # which a folder may have besides, and are then not loaded
# keys of tokenizer_config.json that change no ids of a text, or that other files state
TOKENIZER_WITHOUT_EFFECT = frozenset({
    "added_tokens_decoder", "additional_special_tokens", "auto_map", "backend", "bos_token", "chat_template",
    "clean_up_tokenization_spaces", "cls_token", "device_map", "eos_token", "extra_ids", "extra_special_tokens",
    "from_slow", "is_local", "language_codes", "legacy", "local_files_only", "mask_token", "max_length",
    "model_input_names", "model_max_length", "name_or_path", "num_madeup_words", "pad_to_multiple_of",
    "pad_token", "pad_token_type_id", "padding", "padding_side", "processor_class", "return_tensors", "sep_token",
    "separate_vocabs", "source_lang", "special_tokens_map_file", "spm_file", "src_lang", "stride", "target_lang",
    "target_vocab_file", "tgt_lang", "token", "tokenizer_class", "tokenizer_file", "truncation",
    "truncation_side", "truncation_strategy", "unk_id", "unk_token", "vocab_file",
})  # fmt: skip
# as the package huggingface_hub checks them, and an organisation
HUB_NAME = re.compile(r"(?!.*(?:--|\.\.|\.git$))\w(?:[\w.-]*\w)?/\w(?:[\w.-]{,94}\w)?", re.ASCII)
_HEAD = re.compile(r"---\r?\n(.*?)\n---", re.DOTALL)
MAX_LAYERS, MAX_COUNT = 1000, 10_000_000  # of a stack; of any other number, such as the size of a vocabulary
MAX_CARD = 1 << 20  # characters of a model card
FLOATS = (np.float16, np.float32, np.float64, np.uint16)  # uint16 holds the bits of bfloat16


@dataclass(frozen=True)
class Fields:
    """A table of JSON, with the file that it comes from.

    Attributes:
        values: by key.
        read: the keys that were asked for.
    """

    path: Path
    values: Mapping[str, Any]
    read: set[str] = field(default_factory=set, compare=False)

    def left_out(self, without_effect: Set[str], neutral: Mapping[str, Any]) -> Iterator[str]:
        """A sentence about each key that was not read and may have an effect.

        Args:
            without_effect: keys that have none.
            neutral: values of other keys that have none. What is empty, false or null has none either.
        """
        for key, value in self.values.items():
            is_known = key in self.read or key in without_effect or (key in neutral and value == neutral[key])
            if not is_known and value is not None and value is not False and value not in ("", [], {}):
                yield f"{printable(key, 100)}: {shown(value)} has no effect; translations may differ"

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """The value of a key; DataError if it is of another type. A missing key, and null, have the default."""
        self.read.add(key)
        value = self.values.get(key)
        if value is None:
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value) not in kinds:
            raise DataError(
                f"{self.path}: {key}: {shown(value)}; {' or '.join(each.__name__ for each in kinds)} is expected"
            )
        return value

    def count(self, key: str, most: int = MAX_COUNT) -> int:
        """The value of a key that is a number from 1 to `most`; DataError if it is missing."""
        value = self.get(key, int)
        if value is None or value <= 0:
            raise DataError(f"{self.path}: {key}: {shown(value)}; a number above 0 is expected")
        if value > most:
            raise DataError(f"{self.path}: {key}: {shown(value)}; at most {most:,} is read")
        return int(value)


def shown(value: Any) -> str:
    """A value in a message."""
    return printable(repr(value), 100)


@dataclass(frozen=True)
class ForeignFolder:
    """The folder of a model of another program."""

    path: Path
    _tables: dict[str, Fields] = field(default_factory=dict, init=False, repr=False, compare=False)

    def has(self, name: str) -> bool:
        """Return whether there is such a file."""
        return (self.path / name).is_file()

    def table(self, name: str) -> Fields:
        """Read a table of JSON.

        Raises:
            MissingInputError, ReadWriteError: there is none, or it cannot be read.
            DataError: it is no table.
        """
        if name in self._tables:
            return self._tables[name]
        path = self.path / name
        try:
            values = parse_json(self.bytes(name))
        except ValueError as error:
            raise DataError(f"{path}: damaged, cut off, or no JSON ({error}); copy it again") from error
        if not isinstance(values, dict):
            raise DataError(f"{path}: a table is expected; copy it again")
        self._tables[name] = Fields(path, values)
        return self._tables[name]

    def optional_table(self, name: str) -> Fields:
        """As `table`, empty if there is no such file."""
        return self.table(name) if self.has(name) else Fields(self.path / name, {})

    def left_out(self) -> Iterator[str]:
        """A sentence about each key of other files than config.json that was not read and may have an effect."""
        sentences = self.optional_table(TOKENIZER_SETTINGS).left_out(TOKENIZER_WITHOUT_EFFECT, {})
        return (f"{TOKENIZER_SETTINGS}: {sentence}" for sentence in sentences)

    def bytes(self, name: str) -> bytes:
        """Read a file."""
        return read_file(self.path / name)

    def weights(self) -> dict[str, NDArray[Any]]:
        """Read all tensors of floats by name; those of bfloat16 are their bits.

        Raises:
            MissingInputError, ReadWriteError: there is no file of weights, or it cannot be read.
            DataError: it is damaged, or of another kind.
        """
        names: list[str] = []
        for whole in (SAFETENSORS, PICKLED):
            if not names and self.has(whole):
                names = [whole]
            elif not names and self.has(whole + INDEX):
                listed = self.table(whole + INDEX).get("weight_map", dict, {}).values()
                names = sorted({Path(str(each)).name for each in listed})
        if not names:
            others = foreign_kind(self.path)
            raise MissingInputError(
                f"{self.path}: has neither {SAFETENSORS} nor {PICKLED}; {others or 'copy the weights there'}"
            )
        arrays: dict[str, NDArray[Any]] = {}
        for name in names:
            arrays |= read_torch_file(self.path / name) if name.endswith(".bin") else self._safetensors(name)
        return {name: array for name, array in arrays.items() if array.dtype in FLOATS}

    def _safetensors(self, name: str) -> Mapping[str, NDArray[Any]]:
        try:
            return map_tensors(self.path / name)[1]
        except ValueError as error:
            raise DataError(
                f"{self.path / name}: damaged, cut off, or not in the safetensors format ({error}); copy it again"
            ) from error

    def card(self) -> dict[str, Any]:
        """The head of README.md, in YAML, between two lines of hyphens; empty if there is none."""
        if not self.has("README.md"):
            return {}
        text = self.bytes("README.md")[:MAX_CARD].decode(errors="replace")
        if not (match := _HEAD.match(text)):
            return {}
        errors: list[str] = []
        try:
            values = read_yaml(match[1], "README.md", self.path, errors).to_plain()
        except RecipeError:
            return {}
        return values if isinstance(values, dict) else {}


# files by which other programs' models are known: pattern -> program, and the way round
_OTHERS = {
    **dict.fromkeys(
        ("*.intgemm*.bin", "lex.*.bin", "*.intgemm*.bin.gz", "*.intgemm*.bin.zst"),
        (
            "Firefox Translations (Bergamot), whose weights are 8-bit integers",
            "import the model that was quantised: a folder with Marian's .npz and its vocabularies, which the training "
            "pipeline keeps, or take a model of OPUS-MT",
        ),
    ),
    **dict.fromkeys(
        ("dict.*.txt", "*.pt"),
        (
            "fairseq (or OpenNMT), which keeps its weights in programs of Python",
            "import the same model in the layout of Hugging Face (facebook/nllb-200-distilled-600M, "
            "facebook/m2m100_418M, facebook/mbart-large-50-many-to-many-mmt), or convert your own with the script "
            "convert_m2m100_original_checkpoint_to_pytorch.py of the package transformers",
        ),
    ),
    "model.bin": ("CTranslate2, whose weights may be quantised", "import the model that was converted"),
    "*.argosmodel": ("Argos Translate", "import the model of OPUS-MT or Marian that it was made from"),
    "*.gguf": ("GGUF, whose weights are quantised", "import the model that was quantised"),
    "*.onnx": ("ONNX", "import the model that was exported"),
    **dict.fromkeys(
        ("tf_model.h5", "flax_model.msgpack"),
        (
            "TensorFlow or Flax",
            "load it with the package transformers 4 (from_tf=True or from_flax=True) and save_pretrained",
        ),
    ),
}


def foreign_kind(path: Path) -> str | None:
    """The program that a file, or a folder, is of by its names, and the way round; None: unknown."""
    files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    for pattern, (program, remedy) in _OTHERS.items():
        for file in files:
            if file.match(pattern):
                return f"{printable(file.name, 100)} is a file of {program}, and not imported: {remedy}"
    return None


def is_hub_name(model: Path) -> bool:
    """Return whether MODEL is no folder here, and has the form ORGANISATION/NAME."""
    return not model.exists() and HUB_NAME.fullmatch(str(model)) is not None


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
        folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=list(HUB_FILES)))
        if not any(folder.glob("*.safetensors")):
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=[*HUB_FILES, *PICKLED_FILES]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = printable(str(error).strip().partition("\n")[0], 200)
        raise MissingInputError(
            f"{name}: no such folder, and not loaded from the hub ({type(error).__name__}: {reason}); {by_hand}"
        ) from error
    return folder
