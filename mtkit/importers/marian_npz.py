"""Models as Marian writes them (npz with the configuration in it, vocabularies), as a folder of Hugging Face's layout.

Marian's decoder begins with a vector of zeros; here that is the vector of `<pad>`, a further token. Everything else is
`Marian` in bart.py.
"""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from mtkit.display import printable
from mtkit.errors import DataError, MissingInputError, RecipeError
from mtkit.importers.architecture import require
from mtkit.importers.bart import DECODER, ENCODER, GUIDED, OUTPUT_BIAS, SHARED
from mtkit.importers.foreign_folder import GENERATION, MAX_LAYERS, Fields, ForeignFolder
from mtkit.importers.vocabulary import read_pieces
from mtkit.inference.packing import as_float32
from mtkit.io.files import translate_read_errors
from mtkit.model_folder.config_file import CONFIG
from mtkit.model_folder.foreign_names import BART_LAYER
from mtkit.recipe.yaml_reader import read_yaml

SETTINGS, SEARCH = "special:model.yml", "decoder.yml"
PAD, PAD_LOGIT = "<pad>", -100.0
TABLES = {SHARED, ENCODER, DECODER}
MAX_RATIO = 4  # of a file's content to its size; weights can hardly be compressed
# what reading a damaged archive, or arrays of impossible shapes, can raise
_INVALID = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, EOFError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
)
MAX_LENGTH = 512  # tokens of a translation; Marian has three times the length of the source
# keys of Marian and the values that are computed here; a missing key has them too
EXPECTED: dict[str, object] = {
    "type": "transformer",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-top": "",
    "transformer-no-projection": False,
    "transformer-train-position-embeddings": False,
    "transformer-tied-layers": [],
    "lemma-dim-emb": 0,
    "right-left": False,
    "input-types": [],
    "factors-combine": "sum",
    "transformer-pool": False,
    "transformer-ffn-depth": 2,
    "transformer-postprocess-emb": "d",
    "layer-normalization": False,
    "output-omit-bias": False,
    "ulr": False,
}
# the same of decoder.yml; a word penalty adds to the score of each token, and mtkit has none
EXPECTED_SEARCH: dict[str, object] = {"word-penalty": 0.0, "output-sampling": [], "force-decode": False}
# other keys without effect on a translation, or that the weights show: of parts that EXPECTED excludes, of training,
# of the program's work
WITHOUT_EFFECT = frozenset({
    "alignment", "bert-train-type-embeddings", "bert-type-vocab-size", "best-deep", "cpu-threads", "dec-cell",
    "dec-cell-base-depth", "dec-cell-high-depth", "devices", "dim-rnn", "dim-vocabs", "dropout-rnn",
    "dropout-src", "dropout-trg", "embedding-fix-src", "embedding-fix-trg", "enc-cell", "enc-cell-depth",
    "enc-type", "factors-dim-emb", "fp16", "gemm-type", "input", "label-smoothing", "lemma-dependency", "log",
    "log-level", "max-length", "max-length-crop", "max-length-factor", "maxi-batch", "maxi-batch-sort",
    "mini-batch", "mini-batch-words", "models", "n-best", "num-devices", "optimize", "original-type", "output",
    "precision", "quiet", "quiet-translation", "relative-paths", "seed", "shortlist", "skip", "skip-cost",
    "special-vocab", "tied-embeddings", "tied-embeddings-all", "tied-embeddings-src",
    "transformer-aan-activation", "transformer-aan-depth", "transformer-aan-nogate",
    "transformer-decoder-dim-aan", "transformer-depth-scaling", "transformer-dim-aan", "transformer-dropout",
    "transformer-dropout-attention", "transformer-dropout-ffn", "transformer-guided-alignment-layer",
    "transformer-rnn-projection", "type", "ulr-dim-emb", "ulr-dropout", "ulr-keys-vectors", "ulr-query-vectors",
    "ulr-trainable-transformation", "version", "vocabs", "weights", "word-scores", "workspace",
})  # fmt: skip
# their names of the parts of a layer: that of Hugging Face -> prefix and suffix
PARTS = {
    **{
        f"{theirs}.{part}_proj": (f"{ours}_W{part[0]}", f"{ours}_b{part[0]}")
        for theirs, ours in (("self_attn", "self"), ("encoder_attn", "context"))
        for part in ("q", "k", "v", "out")
    },
    "self_attn_layer_norm": ("self_Wo_ln_scale", "self_Wo_ln_bias"),
    "encoder_attn_layer_norm": ("context_Wo_ln_scale", "context_Wo_ln_bias"),
    "fc1": ("ffn_W1", "ffn_b1"),
    "fc2": ("ffn_W2", "ffn_b2"),
    "final_layer_norm": ("ffn_ffn_ln_scale", "ffn_ffn_ln_bias"),
}


@dataclass(frozen=True)
class MarianFolder(ForeignFolder):
    """A folder with an .npz, vocabularies and sentencepiece models, which answers as one of Hugging Face would."""

    def has(self, name: str) -> bool:
        """Return whether there is such a file, or what it says."""
        return name in (CONFIG, GENERATION) or super().has(name)

    def table(self, name: str) -> Fields:
        """See ForeignFolder; config.json, generation_config.json and vocabularies are made of Marian's files."""
        tables = {CONFIG: self._config, GENERATION: self._generation}
        sides = {"vocab.json": 0, "target_vocab.json": 1}
        if name in sides:
            return Fields(
                self._vocabularies[sides[name]], {token: n for n, token in enumerate(self._names(sides[name]))}
            )
        return Fields(self._model, tables[name]()) if name in tables else super().table(name)

    def left_out(self) -> Iterator[str]:
        """See ForeignFolder."""
        for fields in (self._settings, self._search):
            fields.read.update(self._search.read)
            yield from fields.left_out(WITHOUT_EFFECT, {})

    def bytes(self, name: str) -> bytes:
        """Read a file; source.spm and target.spm may be the vocabularies themselves."""
        sides = {"source.spm": 0, "target.spm": 1}
        vocabulary = self._vocabularies[sides[name]] if name in sides else None
        if vocabulary is not None and vocabulary.suffix == ".spm":
            name = vocabulary.name
        return super().bytes(name)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """See ForeignFolder; by the names of Hugging Face."""
        weights = {}
        for ours, name in self._weight_names():
            if ours not in self._arrays:
                continue
            array = self._arrays[ours]
            is_float = isinstance(array, np.ndarray) and np.issubdtype(array.dtype, np.floating)
            if not is_float or array.ndim not in (1, 2) or not array.size:
                found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "no array"
                raise DataError(
                    f"{self._model}: {ours}: {printable(found, 100)}; a vector or matrix of floats is expected; copy it"
                )
            array = np.atleast_2d(array)
            is_matrix = name.endswith(".weight") and min(array.shape) > 1 and ".layers." in name
            weights[name] = as_float32(array.T if is_matrix else array if name in TABLES else array.reshape(-1))
        size = len(self._names(0))
        for name in TABLES.intersection(weights):
            weights[name] = np.pad(weights[name], ((0, max(0, size - len(weights[name]))), (0, 0)))
        bias = weights.get(OUTPUT_BIAS, np.zeros(size, dtype=np.float32))
        weights[OUTPUT_BIAS] = np.pad(bias, (0, max(0, size - len(bias))), constant_values=PAD_LOGIT)
        known = {ours for ours, _ in self._weight_names()}
        if unknown := sorted(self._arrays.keys() - known - {SETTINGS}):
            raise DataError(f"{self._model}: {printable(unknown[0], 100)}: mtkit imports no models with this weight")
        return weights

    def _guided_layer(self) -> int | None:
        """The layer of guided alignment, counted from 0; None without it.

        The settings in the .npz have the layer (`last`, or a number from 1), also of models without guided alignment;
        whether there was any is in the options of training, which Marian writes beside it as NAME.npz.yml.
        """
        layer, depth = (
            self._settings.get("transformer-guided-alignment-layer", (str, int), "last"),
            self._depths["decoder"],
        )
        if layer == "last":
            options = _read_yaml(self._model.with_name(f"{self._model.name}.yml"))
            is_guided = options.get("guided-alignment", str, "none") != "none" or GUIDED.decode() in self._model.name
            return depth - 1 if is_guided else None
        if not str(layer).isdecimal() or not 1 <= int(layer) <= depth:
            raise DataError(
                f"{self._model}: transformer-guided-alignment-layer: {printable(str(layer), 100)} is neither last nor "
                f"one of the {depth} layers of the decoder; copy the file again"
            )
        return int(layer) - 1

    def _weight_names(self) -> Iterator[tuple[str, str]]:
        is_shared = "Wemb" in self._arrays
        yield from [("Wemb", SHARED)] if is_shared else [("encoder_Wemb", ENCODER), ("decoder_Wemb", DECODER)]
        yield "decoder_ff_logit_out_b", OUTPUT_BIAS
        for side, depth in self._depths.items():
            names = [each for group in BART_LAYER[side].values() for each in group]
            for index, theirs in product(range(depth), names):
                for ours, kind in zip(PARTS[theirs], ("weight", "bias"), strict=True):
                    yield f"{side}_l{index + 1}_{ours}", f"model.{side}.layers.{index}.{theirs}.{kind}"

    @cached_property
    def _depths(self) -> dict[str, int]:
        return {side: self._settings.count(f"{side[:3]}-depth", MAX_LAYERS) for side in ("encoder", "decoder")}

    @cached_property
    def _model(self) -> Path:
        models = sorted(self.path.glob("*.npz"))
        named = [Path(str(each)).name for each in self._search.get("models", list, [])]
        chosen = [each for each in models if each.name in named] or models
        if len(chosen) > 1:
            raise DataError(
                f"{self.path}: has {len(chosen)} models; leave one of {chosen[0].name}, {chosen[1].name} ..."
            )
        return chosen[0]

    @cached_property
    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        try:
            with translate_read_errors(self._model), self._model.open("rb") as content:
                with zipfile.ZipFile(content) as archive:
                    size = sum(info.file_size for info in archive.infolist())
                if size > MAX_RATIO * self._model.stat().st_size:
                    raise ValueError(f"{size:,} bytes would come out of it")
                return dict(np.load(content, allow_pickle=False).items())
        except _INVALID as error:
            raise DataError(
                f"{self._model}: damaged, cut off, or no .npz of numbers ({printable(str(error), 200)}); copy it again"
            ) from error

    @cached_property
    def _settings(self) -> Fields:
        if SETTINGS not in self._arrays:
            raise DataError(f"{self._model}: has no {SETTINGS}; it is no model of Marian")
        text = self._arrays[SETTINGS].tobytes().rstrip(b"\0").decode(errors="replace")
        return Fields(self._model, _yaml(text, self._model))

    @cached_property
    def _search(self) -> Fields:
        return _read_yaml(self.path / SEARCH)

    @cached_property
    def _vocabularies(self) -> tuple[Path, Path]:
        named = self._search.get("vocabs", list, []) or self._settings.get("vocabs", list, [])
        paths = [self.path / Path(str(each)).name for each in named]
        if len(paths) != 2:
            raise DataError(f"{self._model}: names {len(paths)} vocabularies; list both as vocabs in {SEARCH}")
        for path in paths:
            if not path.is_file():
                raise MissingInputError(f"{path}: no such file; copy the vocabulary there")
        return paths[0], paths[1]

    def _names(self, side: int) -> list[str]:
        """The tokens of a vocabulary by id, up to the size of the larger one, and <pad>."""
        longest = max(map(len, self._tokens))
        names = self._tokens[side]
        return [*names, *(f"<unused{number}>" for number in range(len(names), longest)), PAD]

    @cached_property
    def _tokens(self) -> list[list[str]]:
        tokens = []
        for path in self._vocabularies:
            if path.suffix == ".spm":
                tokens.append(read_pieces(ForeignFolder(self.path), path.name))
                continue
            try:
                loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader  # which makes texts alone
                loaded = yaml.load(super().bytes(path.name), Loader=loader)
                ids = {int(number): str(token) for token, number in loaded.items()}
                tokens.append([ids[number] for number in range(len(ids))])
            except (yaml.YAMLError, AttributeError, ValueError, TypeError, KeyError, RecursionError) as error:
                raise DataError(f"{path}: no list of tokens and their ids 0, 1, 2 ...; copy it again") from error
        return tokens

    def _config(self) -> dict[str, Any]:
        settings = self._settings
        require(settings, EXPECTED)
        require(self._search, EXPECTED_SEARCH)
        activation = settings.get("transformer-ffn-activation", str, "swish")
        if activation not in ("swish", "relu"):
            raise DataError(
                f"{self._model}: transformer-ffn-activation: {activation}; mtkit has swish and relu of Marian"
            )
        names, targets = self._names(0), self._names(1)
        if "</s>" not in targets or targets.index("</s>") != ([*names, "</s>"]).index("</s>"):
            raise DataError(
                f"{self._vocabularies[1]}: its token </s> has not the id of that of {self._vocabularies[0]}"
            )
        pad, width = len(targets) - 1, settings.count("transformer-dim-ffn")
        decoder_width = settings.get("transformer-decoder-dim-ffn", int, 0) or width  # 0 is that of the encoder
        sides = {
            f"{side}_{key}": number
            for side, depth in self._depths.items()
            for key, number in (
                ("layers", depth),
                ("attention_heads", settings.count("transformer-heads")),
                ("ffn_dim", width if side == "encoder" else decoder_width),
            )
        }
        if (layer := self._guided_layer()) is not None:
            sides["guided_alignment_layer"] = layer
        return {
            "model_type": "marian",
            "d_model": settings.count("dim-emb"),
            **sides,
            "activation_function": activation,
            "scale_embedding": True,
            "share_encoder_decoder_embeddings": "Wemb" in self._arrays,
            "vocab_size": len(names),
            "decoder_vocab_size": len(targets),
            "pad_token_id": pad,
            "decoder_start_token_id": pad,
            "eos_token_id": targets.index("</s>"),
        }

    def _generation(self) -> dict[str, Any]:
        search = Fields(self._search.path, {**self._settings.values, **self._search.values}, self._search.read)
        never = {PAD} if search.get("allow-unk", bool, False) else {PAD, "<unk>"}
        return {
            "num_beams": search.get("beam-size", int, 12),
            "length_penalty": float(search.get("normalize", (int, float, bool), 0)),
            "max_length": MAX_LENGTH,
            "bad_words_ids": [[number] for number, name in enumerate(self._names(1)) if name in never],
        }


def _read_yaml(path: Path) -> Fields:
    """The settings in a file; none without it."""
    if not path.is_file():
        return Fields(path, {})
    with translate_read_errors(path):
        return Fields(path, _yaml(path.read_text(encoding="utf-8", errors="replace"), path))


def _yaml(text: str, path: Path) -> dict[str, Any]:
    errors: list[str] = []
    try:
        values = read_yaml(text, path.name, path, errors).to_plain()
    except RecipeError as error:
        raise DataError(f"{path}: its settings cannot be read: {error}; copy it again") from error
    if not isinstance(values, dict):
        raise DataError(f"{path}: a table of settings is expected; copy it again")
    return values
