"""Equivalence check of an exported model: it must give the translations of the reference implementation."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from mtkit.corpus.order.batch import collate_source
from mtkit.corpus.store import MANIFEST, Store
from mtkit.errors import DataError, NonFiniteError
from mtkit.model_folder.folder import LoadedModel
from mtkit.recipe.paths import to_plain
from mtkit.search.config import SearchConfig
from mtkit.search.constraints import ForcedPrefix
from mtkit.search.interface import SearchRequest
from mtkit.search.support import ExportTarget, unsupported
from mtkit.text.lines import read_lines
from mtkit.text.source_prefix import SourcePrefix
from mtkit.translate.engine import special_ids

NUM_LINES = 100
MIN_EQUAL_SHARE = 0.99  # of the translations; near-ties may be decided differently
MAX_RANDOM_TOKENS = 20  # in a random line


class ExportRunner(Protocol):
    """Another program that runs an exported model."""

    def translate(
        self, sources: Sequence[Sequence[int]], search: SearchConfig, begin: Sequence[int] = ()
    ) -> list[list[int]]:
        """The best translation of each source, as ids without the end of sentence.

        Args:
            sources: as ids without the end of sentence.
            search: of which a program computes what it can.
            begin: tokens that every translation begins with; they are not part of the result, nor of its length.
        """


def usual_prefix(loaded: LoadedModel) -> SourcePrefix:
    """The prefix of sources where a request states none, with a tag in a model that needs one."""
    return SourcePrefix(tag=loaded.metadata.tags[0] if loaded.metadata.requires_tag else None)


@dataclass(frozen=True)
class SampleLines:
    """Lines to translate with a model and with its export, and a description of their origin."""

    lines: Sequence[str]
    origin: str


def sample_lines(model: Path, loaded: LoadedModel, file: Path | None) -> SampleLines:
    """Choose lines for the check: of a file, of the run's validation or training text, or random tokens.

    Args:
        model: model or run folder; a model folder contains no text, so that random lines are used.
        file: text whose first lines are used; None looks for the text of the run.

    Raises:
        DataError: the file is empty.
        DataError, MissingInputError, ReadWriteError: as `read_lines`.
    """
    if file is not None:
        lines = list(itertools.islice(read_lines(file), NUM_LINES))
        if not lines:
            raise DataError(f"{file}: has no lines to translate")
        return SampleLines(lines, str(file))
    for name in ("valid", "train.0"):
        folder = model / "corpus" / name
        if (folder / MANIFEST).is_file():
            store = Store(folder)
            lines = [store.text("src", i) for i in range(min(NUM_LINES, len(store)))]
            return SampleLines(lines, f"the run's {name} text")
    tokenizer = loaded.tokenizers.src
    excluded = {*tokenizer.special_ids, tokenizer.vocab.unk}
    tokens = [token for token in range(tokenizer.vocab.size) if token not in excluded]
    rng = random.Random(1)
    random_lines = [rng.choices(tokens, k=rng.randint(1, MAX_RANDOM_TOKENS)) for _ in range(NUM_LINES)]
    return SampleLines(tokenizer.decode(random_lines), "random tokens; --check FILE uses real text")


def check_equivalence(loaded: LoadedModel, exported: ExportRunner, sample: SampleLines) -> str:
    """Translate the sample with the reference implementation and with its export, by greedy search in float32.

    Returns:
        A sentence with the number of equal translations, and one about what the other program does not do.

    Raises:
        DataError: less than MIN_EQUAL_SHARE of the translations are equal; the message shows the first difference.
        NonFiniteError: the model computes NaN or infinity.
    """
    stored = loaded.metadata.search
    search = SearchConfig(beam_size=1, max_length=stored.max_length, allow_unknown=stored.allow_unknown)
    tokenizers, prefix = loaded.tokenizers, usual_prefix(loaded)
    start, begin = prefix.ids(tokenizers), prefix.tgt_ids(tokenizers)
    search = search.limited_to(loaded.metadata.model.max_target_length(), begin=begin)
    limit = max(1, loaded.metadata.max_source_length - len(start) - len(tokenizers.src.after))
    sources = [
        [*start, *ids[:limit], *tokenizers.src.after] if ids else [] for ids in tokenizers.encode("src", sample.lines)
    ]
    numbers = [number for number, ids in enumerate(sources) if ids]
    texts = [sources[number] for number in numbers]
    expected, found = (
        # CTranslate2 has one limit for all sources
        [ids[: search.max_length.of(len(text))] for ids, text in zip(translations, texts, strict=True)]
        for translations in (_translate(loaded, texts, search, begin), exported.translate(texts, search, begin))
    )
    different = [i for i in range(len(texts)) if expected[i] != found[i]]
    num_equal = len(sources) - len(different)
    summary = f"{num_equal} of {len(sources)} translations are equal (greedy, float32; {sample.origin})"
    if num_equal < MIN_EQUAL_SHARE * len(sources):
        first = different[0]
        ours, theirs = loaded.tokenizers.tgt.decode([expected[first], found[first]])
        raise DataError(
            f"{loaded.folder}: the exported model translates differently: {summary}; nothing was written\n"
            f"source: {sample.lines[numbers[first]]}\nmtkit: {ours}\nexported: {theirs}"
        )
    return "\n".join([summary, *text_notes(loaded)])


def text_notes(loaded: LoadedModel) -> list[str]:
    """Sentences about what mtkit does with a text before and after its tokenizers, and another program does not."""
    tokenizer, sentences = loaded.metadata.tokenizer, list[str]()
    if tokenizer.normaliser != "none":
        sentences.append(
            f"normaliser {tokenizer.normaliser} is not part of the export: give the other program text with single "
            "spaces, none at the ends, and without invisible characters (mtkit/text/normalise.py)"
        )
    if tokenizer.lowercase:
        sentences.append("lower case is not part of the export: give the other program lower-cased text")
    if tokenizer.robustness:
        sentences.append(
            "lines in capitals: mtkit translates them as lower case, and writes the translation in capitals; the other "
            "program does not (mtkit/text/spans.py)"
        )
    if tokenizer.copy_tokens:
        sentences.append(
            "copy tokens: mtkit replaces URLs, numbers and others by reserved tokens, and these by the spans in the "
            "translation; the other program does not (mtkit/text/copy_tokens.py)"
        )
    return sentences


def stated(search: SearchConfig, keys: Iterable[str]) -> str:
    """Keys of a search with their values, as overrides of a recipe state them."""
    values = {key: to_plain(getattr(search, key)) for key in keys}
    return ", ".join(f"search.{key}={json.dumps(value)}" for key, value in values.items())


def lost_settings(target: ExportTarget, program: str, search: SearchConfig, more: Iterable[str] = ()) -> list[str]:
    """A sentence that names the keys of a search which an export loses, `more` among them; none: nothing is lost."""
    keys = list(dict.fromkeys([*unsupported(target, search), *more]))
    return [f"not computed by {program}: {stated(search, keys)}"] if keys else []


def _translate(
    loaded: LoadedModel, sources: Sequence[Sequence[int]], search: SearchConfig, begin: Sequence[int]
) -> list[list[int]]:
    """As ExportRunner.translate, by the reference implementation."""
    request = SearchRequest.of(
        collate_source(sources, loaded.tokenizers.src.vocab),
        torch.tensor([search.max_length.of(len(ids)) + len(begin) for ids in sources]),
    )
    request = replace(request, constraints=(ForcedPrefix([begin] * len(sources)),))
    meanings = special_ids(loaded.tokenizers.tgt, allow_unknown=search.allow_unknown)
    meanings = replace(meanings, banned=tuple(token for token in meanings.banned if token not in begin))
    hypotheses = [best for best, *_ in search.build(meanings, with_log_probs=False)(loaded.model, request)]
    if any(each.failed for each in hypotheses):
        raise NonFiniteError(str(loaded.folder), 1 + [each.failed for each in hypotheses].index(True))
    return [each.tokens[len(begin) :] for each in hypotheses]
