"""A Marian model that the package transformers trained: imported, it gives the same texts and scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from mtkit.importers.import_model import Languages, import_model
from mtkit.inference.support import unsupported_model_key
from mtkit.model_folder.folder import read_metadata
from mtkit.translate.load import load_translator
from mtkit.translate.translation import TranslationOptions
from tests.toy.foreign_models import lines, make_marian

pytestmark = pytest.mark.slow

MAX_TOKENS = 60  # of a translation, so that loops of a model with little training cost little
SETTINGS = {
    "greedy": ({"num_beams": 1}, ["beam_size=1"]),
    "beam": ({"num_beams": 4}, []),
    "stops early": ({"num_beams": 4, "early_stopping": True}, ["early_stopping=true"]),
    "never early": (
        {"num_beams": 3, "early_stopping": "never"},
        ["early_stopping=true", "patience=1e6", "beam_size=3"],
    ),
    "no length penalty": ({"num_beams": 4, "length_penalty": 0.0}, ["length_penalty=0"]),
    "long": ({"num_beams": 4, "length_penalty": 1.8}, ["length_penalty=1.8"]),
}


class Models(NamedTuple):
    """Both models, and where the imported one is."""

    theirs: Any
    tokenizer: Any
    imported: Path


@pytest.fixture(
    scope="module", params=[{}, {"scale_embedding": False, "activation_function": "gelu"}], ids=["", "unscaled"]
)
def models(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Models]:
    folder = tmp_path_factory.mktemp("marian")
    make_marian(folder, updates=300 if not request.param else 40, **request.param)
    import_model(folder, folder / "imported", Languages())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        model = transformers.MarianMTModel.from_pretrained(folder).eval()
        yield Models(model, transformers.MarianTokenizer.from_pretrained(folder), folder / "imported")


@torch.inference_mode()
def generate(models: Models, texts: Sequence[str], **options: Any) -> tuple[list[str], list[float], list[bool]]:
    """Texts and scores by transformers, and which are cut off; the score of greedy search is the log-probability."""
    found, scores, is_cut = [], [], []
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for first in range(0, len(texts), 50):
        batch = models.tokenizer([texts[i] for i in order[first : first + 50]], return_tensors="pt", padding=True)
        result = models.theirs.generate(
            **batch,
            max_length=MAX_TOKENS + 2,
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
            **options,
        )
        found += models.tokenizer.batch_decode(result.sequences, skip_special_tokens=True)
        pad = models.tokenizer.pad_token_id
        is_cut += (result.sequences[:, 1:] != pad).sum(1).eq(MAX_TOKENS + 1).tolist()
        if options["num_beams"] > 1:
            scores += result.sequences_scores.tolist()
            continue
        log_probs = torch.stack(result.logits, 1).log_softmax(-1)  # [B, T, V]
        tokens = result.sequences[:, 1:]
        values = log_probs.gather(2, tokens.unsqueeze(2)).squeeze(2)
        scores += values.masked_fill(tokens == pad, 0).sum(1).tolist()
    place = {i: n for n, i in enumerate(order)}
    return tuple([each[place[i]] for i in range(len(texts))] for each in (found, scores, is_cut))  # type: ignore[return-value]


@pytest.mark.parametrize("rewrite", [True, False], ids=["fast road", "as written"])
@pytest.mark.parametrize("name", SETTINGS)
def test_texts_and_scores_are_those_of_transformers(models: Models, name: str, rewrite: bool) -> None:
    options, overrides = SETTINGS[name]
    texts = lines("test.en", 500 if rewrite and name in ("greedy", "beam") else 60)
    expected, scores, is_cut = generate(models, texts, **options)
    translator = load_translator(
        models.imported,
        search_overrides=[f"max_length.offset={MAX_TOKENS}", *overrides],
        compute_type="float32",
        rewrite=rewrite,
        options=TranslationOptions(with_scores=True),
    )
    found = list(translator.translate(texts))
    # at the maximum length transformers forces the end, at no cost
    pairs = [
        (each, text, score)
        for each, text, score, cut in zip(found, expected, scores, is_cut, strict=True)
        if not (cut or "limit" in each.flags)
    ]
    assert len(pairs) > 0.8 * len(texts)
    assert [each.hyp for each, _, _ in pairs] == [text for _, text, _ in pairs]
    ours = [each.log_prob if options["num_beams"] == 1 else each.score for each, _, _ in pairs]
    assert ours == pytest.approx([score for _, _, score in pairs], abs=1e-4)


def test_the_fast_road_takes_the_model(models: Models) -> None:
    metadata = read_metadata(models.imported)
    assert unsupported_model_key(metadata.model) is None
    assert (metadata.search.beam_size, metadata.search.early_stopping) == (4, False)
    assert (metadata.src_lang, metadata.tgt_lang, metadata.max_source_length) == ("en", "de", 127)
