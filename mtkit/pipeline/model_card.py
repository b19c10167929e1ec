"""README.md of a model folder: what it is, what it was made from, how good it is, how to use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtkit import __version__
from mtkit.model_folder.folder import Description


def model_card(description: Description, report: Mapping[str, Any], *, parameters: int) -> str:
    """The card in Markdown.

    Args:
        description: of the model.
        report: as report.json, as far as it is known.
        parameters: of the model.
    """
    src, tgt = description.src_lang, description.tgt_lang
    tokenizer = description.tokenizer
    sharing = "shared by both languages" if tokenizer.shared else "for each language"
    whole_or_split = "split" if description.search.split_long_lines else "translated whole"
    lines = [
        f"# Translation from {src} to {tgt}",
        "",
        f"A model of kind `{description.model.kind}` with {parameters:,} parameters, trained with mtkit {__version__}.",
        "",
        "```",
        "mtkit translate FOLDER input.txt -o output.txt",
        "```",
        "",
        "It takes raw text, one sentence a line, and gives exactly one line for each.",
        "",
        f"- Subwords: {tokenizer.model_type}, {tokenizer.vocab_size:,} pieces {sharing}; "
        f"normalisation {tokenizer.normalisation}.",
        f"- Longest training source: {description.longest_source:,} pieces; longer lines are {whole_or_split}.",
        *_training(report),
        *_scores(report),
        "",
        "It knows what its training text knew: other domains, and facts, are beyond it. Its output can be wrong in any "
        "way, names and numbers included; let a person read it before it matters.",
    ]
    return "\n".join(lines) + "\n"


def _training(report: Mapping[str, Any]) -> list[str]:
    if "train" not in report:
        return []
    train = report["train"]
    return [f"- Training: {train['updates']:,} updates in {train['precision']}."]


def _scores(report: Mapping[str, Any]) -> list[str]:
    if not report.get("test"):
        return []
    lines = ["", "| test set | BLEU | chrF2 | TER |", "|---|---|---|---|"]
    signatures: list[str] = []
    for name, scores in report["test"].items():
        cells = [f"{scores[metric]:.1f}" if metric in scores else "" for metric in ("bleu", "chrf", "ter")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        signatures += [value for key, value in scores.items() if key.endswith("_signature")]
    return [*lines, "", "sacreBLEU: " + ", ".join(f"`{s}`" for s in dict.fromkeys(signatures))]
