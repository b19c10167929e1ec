"""Model card: the README.md of a model folder, with usage, training data limits and scores."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit import __version__
from mtkit.display import Table, TableFormat
from mtkit.model_folder.config_file import LEXICON, WEIGHTS, update_model_card
from mtkit.model_folder.folder import LoadedModel, ModelMetadata, read_metadata, read_model, write_model
from mtkit.model_folder.weights_file import num_parameters

if TYPE_CHECKING:
    from torch import Tensor

    from mtkit.text.tokenizer import TokenizerPair


METRICS = ("bleu", "chrf", "ter")
_NONCOMMERCIAL = re.compile(r"\bnc\b|non-?commercial|research", re.IGNORECASE)


def model_card(metadata: ModelMetadata, report: Mapping[str, Any], *, num_parameters: int) -> str:
    """Return the model card in Markdown.

    Args:
        report: content of report.json; `train`, `test`, `texts` and, except after a fine-tuning, `choice` may be
            missing.
        num_parameters: number of weights.
    """
    tokenizer, search = metadata.tokenizer, metadata.search
    sharing = "shared by both languages" if tokenizer.shared else "for each language"
    is_imported = metadata.base_model is not None and "train" not in report
    origin = f"imported from {metadata.base_model} by" if is_imported else "trained with"
    facts = [
        f"- Subwords: {tokenizer.model_type}, {tokenizer.vocab_size:,} tokens {sharing}; "
        f"normalisation {tokenizer.normalisation}{', lower case' if tokenizer.lowercase else ''}."
    ]
    if metadata.is_language_model:
        title = f"Language model of {metadata.tgt_lang}"
        usage = ["mtkit score FOLDER --ref text.txt", "mtkit translate MODEL input.txt --lm FOLDER"]
        purpose = "It scores raw text with one sentence per line, and ranks translations."
        limits = "The model was trained on a limited domain and predicts other domains worse."
    else:
        title = f"Translation from {metadata.src_lang} to {metadata.tgt_lang}"
        usage = ["mtkit translate FOLDER input.txt -o output.txt"]
        purpose = "The input is raw text with one sentence per line; the output has exactly one line for each."
        limits = (
            "The model was trained on a limited domain and translates other domains worse. Its output can contain "
            "errors of any kind, also in names and numbers; have it checked before relying on it."
        )
        long_lines = "split" if search.split_long_lines else "translated in one piece"
        if search.split_long_lines and metadata.is_of_single_sentences:
            long_lines += ", and lines of several sentences are translated sentence by sentence"
        facts.append(
            f"- Longest training source: {metadata.max_source_length:,} tokens; longer lines are {long_lines}."
        )
    if metadata.storage != "float32":
        facts.append(f"- Weights: {metadata.storage} on disk.")
    if "train" in report:
        facts.append(f"- Training: {report['train']['updates']:,} updates in {report['train']['precision']}.")
        if report.get("choice"):
            facts.append(f"- Choice: {report['choice']}.")
    lines = [
        *_head(metadata, report),
        f"# {title}",
        "",
        f"A `{metadata.model.kind}` model with {num_parameters:,} parameters, {origin} mtkit {__version__}.",
        "",
        "```",
        *usage,
        "```",
        "",
        purpose,
        "",
        *facts,
        *_scores(report),
        *_texts(report),
        "",
        *([licence_note(metadata)] if metadata.base_model else []),
        limits,
    ]
    return "\n".join(lines) + "\n"


def _head(metadata: ModelMetadata, report: Mapping[str, Any]) -> list[str]:
    """The head in YAML that hubs of models read; texts are quoted as in JSON."""
    languages = list(dict.fromkeys([metadata.src_lang, metadata.tgt_lang]))
    metrics = [each for each in METRICS if any(each in scores for scores in report.get("test", {}).values())]
    own = "language model" if metadata.is_language_model else "translation"
    fields: dict[str, Any] = {
        "library_name": "mtkit",
        "pipeline_tag": None if metadata.is_language_model else own,
        "language": languages[-1:] if metadata.is_language_model else metadata.languages or languages,
        "license": metadata.licence,
        "base_model": metadata.base_model,
        "tags": ["mtkit", *([] if metadata.is_language_model else [own])],
        "metrics": metrics,
        "model-index": _results(metadata, report),
    }
    return ["---", *(f"{key}: {json.dumps(value)}" for key, value in fields.items() if value), "---", ""]


def _results(metadata: ModelMetadata, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The scores as hubs of models list them."""
    results = [
        {
            "task": {"type": "translation"},
            "dataset": {"name": name, "type": name},
            "metrics": [
                {"type": metric, "name": metric, "value": round(scores[metric], 2)}
                for metric in METRICS
                if metric in scores
            ],
        }
        for name, scores in report.get("test", {}).items()
    ]
    results = [each for each in results if each["metrics"]]
    return [{"name": f"{metadata.src_lang}-{metadata.tgt_lang}", "results": results}] if results else []


def licence_note(metadata: ModelMetadata) -> str:
    """A sentence about the licence of a model that came from another program."""
    if metadata.licence is None:
        return f"The licence of {metadata.base_model} is not stated; find it out before you pass the model on."
    is_restricted = _NONCOMMERCIAL.search(metadata.licence) is not None
    restriction = " It allows NO COMMERCIAL USE, also of models that are trained from it." if is_restricted else ""
    return f"Licence of {metadata.base_model}: {metadata.licence}.{restriction}"


def write_model_card(folder: Path, report: Mapping[str, Any]) -> None:
    """Write the model card of an existing model folder, with the scores of a report.

    Raises:
        MissingInputError, DataError: a file of the model is missing or damaged.
        ReadWriteError: a file cannot be written.
    """
    parameters = num_parameters(folder / WEIGHTS)
    update_model_card(folder, model_card(read_metadata(folder), report, num_parameters=parameters))


def _scores(report: Mapping[str, Any]) -> list[str]:
    if not report.get("test"):
        return []
    from mtkit.evaluation.config import REPORTED  # only cards of models with scores need the table

    tests = report["test"].values()
    columns = {key: info.heading for key, info in REPORTED.items() if any(key in scores for scores in tests)}
    rows, signatures = [], []
    for name, scores in report["test"].items():
        rows.append([name, *(f"{scores[metric]:.1f}" if metric in scores else "" for metric in columns)])
        named = ((heading, scores.get(f"{metric}_signature")) for metric, heading in columns.items())
        signatures += [f"- {heading}: `{signature}`" for heading, signature in named if signature]
    table = Table(["test set", *columns.values()], rows, text=["test set"]).format(TableFormat.markdown)
    return ["", *table, "", "Signatures of sacreBLEU:", "", *dict.fromkeys(signatures)]


def _texts(report: Mapping[str, Any]) -> list[str]:
    """Table of the texts of the training with their origins."""
    if not report.get("texts"):
        return []
    headings = ["text", "files", "source", "licence", "SHA-256"]
    rows = []
    for each in report["texts"]:
        known = (each[key] or "unknown" for key in ("address", "licence"))
        rows.append([each["text"], each["name"], *known, ", ".join(each["sha256"])])
    return ["", *Table(headings, rows, text=headings).format(TableFormat.markdown)]


def write_new_model(
    folder: Path,
    tensors: Mapping[str, Tensor],
    metadata: ModelMetadata,
    tokenizers: TokenizerPair,
    *,
    lexicon: Path | None = None,
) -> None:
    """Write a model without scores, with its card, and with the lexicon if that file exists.

    Raises:
        ReadWriteError: the folder cannot be written.
    """
    card = model_card(metadata, {}, num_parameters=sum(tensor.numel() for tensor in tensors.values()))
    lexicon = lexicon if lexicon is not None and lexicon.is_file() else None
    write_model(folder, tensors, metadata, tokenizers, card=card, lexicon=lexicon)


def write_changed_copy(
    folder: Path,
    loaded: LoadedModel,
    metadata: ModelMetadata,
    tensors: Mapping[str, Tensor],
    tokenizers: TokenizerPair,
) -> None:
    """Write a copy of a model with other metadata and weights, with a card of its own.

    The lexicon is copied unless the tokenizers are others.

    Raises:
        DataError: the weights do not fit the metadata: the copy, which has been written, cannot be read.
        ReadWriteError: the folder cannot be written.
    """
    lexicon = loaded.folder / LEXICON if tokenizers is loaded.tokenizers else None
    write_new_model(folder, tensors, metadata, tokenizers, lexicon=lexicon)
    read_model(folder)
