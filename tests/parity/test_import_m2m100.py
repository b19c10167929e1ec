"""An M2M-100 that the package transformers trained: imported, it gives the same texts and scores."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.assembly.translator import load_scorer, load_translator
from mtkit.errors import MtkitError
from mtkit.importers.import_model import Languages, import_model
from mtkit.importers.m2m100 import LANGUAGES
from mtkit.inference.served import unserved_model
from mtkit.model_folder.folder import read_metadata
from mtkit.translate.translation import TranslationOptions
from tests.parity.references import transformers_module
from tests.toy.foreign_models import lines, make_m2m100

GERMAN = Languages("en", "de")


def test_the_languages_are_those_of_the_tokenizer() -> None:
    theirs = transformers_module("models.m2m_100.tokenization_m2m_100")
    assert list(LANGUAGES) == theirs.FAIRSEQ_LANGUAGE_CODES["m2m100"]


def load(folder: Path) -> tuple[Any, Any]:
    """The model and the tokenizer of transformers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        model = transformers.M2M100ForConditionalGeneration.from_pretrained(folder).eval()
        return model, transformers.M2M100Tokenizer.from_pretrained(folder, src_lang="en", tgt_lang="de")


@pytest.fixture(scope="module")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    folder = make_m2m100(tmp_path_factory.mktemp("m2m"), updates=0)
    import_model(folder, folder / "imported", GERMAN)
    return folder


@torch.inference_mode()
def test_given_translations_have_the_same_log_probabilities(random_model: Path) -> None:
    """The name of the language costs nothing."""
    theirs, tokenizer = load(random_model)
    metadata = read_metadata(random_model / "imported")
    assert unserved_model(metadata.model) is None
    pairs = list(zip(lines("test.en", 6), lines("test.de", 6), strict=True))
    score = load_scorer([random_model / "imported"], compute_type="float32")
    found = score(iter(pairs))
    for (source, target), each in zip(pairs, found, strict=True):
        batch = tokenizer(source, text_target=target, return_tensors="pt")
        labels = batch["labels"]
        log_probs = theirs(**batch).logits[0].log_softmax(-1).gather(1, labels[0].unsqueeze(1)).squeeze(1)
        assert int(labels[0, 0]) == tokenizer.get_lang_id("de")
        assert each.log_prob == pytest.approx(float(log_probs[1:].sum()), abs=1e-3)


def test_an_unknown_language_is_named(random_model: Path, tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match="has no language 'xx'; it has af, am"):
        import_model(random_model, tmp_path / "out", Languages("en", "xx"))
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def trained_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    folder = make_m2m100(tmp_path_factory.mktemp("m2m"), updates=300)
    import_model(folder, folder / "imported", GERMAN)
    return folder


@pytest.mark.slow
@torch.inference_mode()
def test_texts_and_scores_are_those_of_transformers(trained_model: Path) -> None:
    folder = trained_model
    theirs, tokenizer = load(folder)
    texts, limit = lines("test.en", 200), 60
    german = tokenizer.get_lang_id("de")
    for beams, rewrite in ((4, True), (4, False), (1, True)):
        translator = load_translator(
            folder / "imported",
            search_overrides=[f"max_length.offset={limit}", f"beam_size={beams}"],
            compute_type="float32",
            options=TranslationOptions(with_scores=True, rewrite=rewrite),
        )
        pairs = []
        for first in range(0, len(texts), 50):
            part = texts[first : first + 50]
            result = theirs.generate(
                **tokenizer(part, return_tensors="pt", padding=True),
                forced_bos_token_id=german,
                num_beams=beams,
                max_length=limit + 3,
                return_dict_in_generate=True,
                output_scores=True,
            )
            scores = result.sequences_scores.tolist() if beams > 1 else [None] * len(part)
            is_cut = ((result.sequences != 1).sum(1) >= limit + 3).tolist()
            # transformers 5 does not take the names of languages for special tokens
            written = [
                text.removeprefix("__de__").strip()
                for text in tokenizer.batch_decode(result.sequences, skip_special_tokens=True)
            ]
            pairs += zip(translator.translate(part), written, scores, is_cut, strict=True)
        whole = [each for each in pairs if not each[3] and "limit" not in each[0].flags]
        assert len(whole) > 0.8 * len(texts)
        assert [ours.hyp for ours, *_ in whole] == [text for _, text, *_ in whole]
        if beams > 1:
            assert [ours.score for ours, *_ in whole] == pytest.approx([each[2] for each in whole], abs=1e-4)
