"""Models of many languages that the package transformers trained: imported, they give the same texts and scores."""

from __future__ import annotations

import copy
import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from mtkit.cli import entry
from mtkit.corpus.order.batch import Batch
from mtkit.errors import MtkitError
from mtkit.importers.bart import LANGUAGES
from mtkit.importers.import_model import Languages, import_model
from mtkit.inference.support import unsupported_model_key
from mtkit.model_folder.folder import read_metadata
from mtkit.text.source_prefix import SourcePrefix
from mtkit.training.learner import Learner
from mtkit.training.loop import accumulate_gradients
from mtkit.training.monitoring.meter import LossSums
from mtkit.translate.load import load_scorer, load_translator
from mtkit.translate.translation import TranslationOptions
from tests.parity.references import transformers_module
from tests.toy import sampling
from tests.toy.foreign_models import lines, make_m2m100, make_mbart, make_nllb, make_t5


class Kind(NamedTuple):
    """A kind of model: the function that makes one, its classes in transformers, its languages."""

    make: Callable[..., Path]
    model: str
    tokenizer: str
    languages: Languages


KINDS = {
    "m2m100": Kind(make_m2m100, "M2M100ForConditionalGeneration", "M2M100Tokenizer", Languages("en", "de")),
    "nllb": Kind(make_nllb, "M2M100ForConditionalGeneration", "NllbTokenizer", Languages("eng_Latn", "deu_Latn")),
    "mbart": Kind(make_mbart, "MBartForConditionalGeneration", "MBart50Tokenizer", Languages("en_XX", "de_DE")),
}
V11: dict[str, Any] = {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}  # of T5, as MADLAD-400 is
T5 = {
    name: Kind(partial(make_t5, **changes), "T5ForConditionalGeneration", "T5Tokenizer", Languages("en", "de"))
    for name, changes in (("t5", {}), ("t5 v1.1", V11))
}


def test_the_languages_are_those_of_the_tokenizer() -> None:
    theirs = transformers_module("models.m2m_100.tokenization_m2m_100")
    assert list(LANGUAGES) == theirs.FAIRSEQ_LANGUAGE_CODES["m2m100"]


class Models(NamedTuple):
    """Both models, the ids of their languages, and where the imported one is."""

    theirs: Any
    tokenizer: Any
    target: int
    imported: Path


def load(kind: Kind, folder: Path, updates: int) -> Models:
    """Train a model by transformers, and import it."""
    transformers = pytest.importorskip("transformers")
    kind.make(folder, updates=updates)
    import_model(folder, folder / "imported", kind.languages)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(transformers, kind.model).from_pretrained(folder).eval()
        languages = {"src_lang": kind.languages.src, "tgt_lang": kind.languages.tgt}
        tokenizer = getattr(transformers, kind.tokenizer).from_pretrained(folder, **languages)
    named = kind.languages.tgt if kind.tokenizer != "M2M100Tokenizer" else f"__{kind.languages.tgt}__"
    return Models(theirs, tokenizer, tokenizer.convert_tokens_to_ids(named), folder / "imported")


@pytest.fixture(scope="module", params=KINDS)
def random_models(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Models:
    return load({**KINDS, **T5}[request.param], tmp_path_factory.mktemp("random"), 0)


@pytest.mark.whole
@pytest.mark.parametrize("is_reversed", [False, True])
@torch.inference_mode()
def test_given_translations_have_the_same_log_probabilities(random_models: Models, is_reversed: bool) -> None:
    """The name of the language costs nothing; one folder has all directions."""
    metadata = read_metadata(random_models.imported)
    assert unsupported_model_key(metadata.model) is None
    pairs = list(zip(lines("test.en", 6), lines("test.de", 6), strict=True))
    prefix, tokenizer, language = SourcePrefix(), random_models.tokenizer, random_models.target
    if is_reversed:
        prefix = SourcePrefix(src_lang=metadata.tgt_lang, tgt_lang=metadata.src_lang)
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.src_lang, tokenizer.tgt_lang = metadata.tgt_lang, metadata.src_lang
        pairs = [(target, source) for source, target in pairs]
        language = tokenizer("a", text_target="a")["labels"][0]
        assert language != random_models.target
    score = load_scorer(
        [random_models.imported], compute_type="float32", options=TranslationOptions(source_prefix=prefix)
    )
    found = score(iter(pairs))
    for (source, target), each in zip(pairs, found, strict=True):
        batch = tokenizer(source, text_target=target, return_tensors="pt")
        labels = batch.pop("labels")[0]
        start = torch.tensor([[2, *labels[:-1]]])
        logits = random_models.theirs(**batch, decoder_input_ids=start).logits[0]
        log_probs = logits.log_softmax(-1).gather(1, labels.unsqueeze(1)).squeeze(1)
        assert int(labels[0]) == language
        assert each.log_prob == pytest.approx(float(log_probs[1:].sum()), abs=1e-3)


def test_an_unknown_language_is_named(random_models: Models, tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match=r"has no language 'xx'; it has \w+, \w+"):
        import_model(random_models.imported.parent, tmp_path / "out", Languages("xx", "en"))
    assert not (tmp_path / "out").exists()


RECIPE = """\
corpus:
  src_lang: {langs[0]}
  tgt_lang: {langs[1]}
  train: [{{src: {folder}/text.src, tgt: {folder}/text.tgt}}]
  cleaning: {{max_length: 100}}
model: {config}
training:
  init_from: {model}
  max_updates: {updates}
  batch_tokens: 2048
  precision: float32
  optimiser: {{kind: adam, learning_rate: 1e-4, beta1: 0.9, beta2: 0.98, eps: 1e-9}}
  schedule: {{kind: constant}}
  label_smoothing: 0
  freeze: [output.bias]
  clip_norm: null
  log_every: 1
  validate_every: 1000
  checkpoint_every: 1000
"""


@pytest.mark.whole
@pytest.mark.parametrize("random_models", [*KINDS, *T5], indirect=True)
def test_losses_of_fine_tuning_are_those_of_transformers(
    random_models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of the languages, which texts begin with, are learned too; their models have no bias of the output."""
    updates = sampling.sampled(200)
    sides = {"src": lines("train.en", 24), "tgt": lines("train.de", 24)}
    for side, text in sides.items():
        (tmp_path / f"text.{side}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    recipe = tmp_path / "x.yaml"
    config = json.loads((random_models.imported / "config.json").read_text())["model"]
    config |= {"dropout": 0, "attention_dropout": 0, "activation_dropout": 0}
    values = {"folder": tmp_path, "model": random_models.imported, "updates": updates, "config": json.dumps(config)}
    metadata = read_metadata(random_models.imported)
    values |= {"langs": (metadata.src_lang, metadata.tgt_lang)}
    model = copy.deepcopy(random_models.theirs)
    recipe.write_text(RECIPE.format(**values))
    read: list[list[int]] = []  # samples of each update

    def recorded(learner: Learner, batches: Sequence[Batch], update: int) -> LossSums:
        read.append([sample for batch in batches for sample in batch.sample_ids.tolist()])
        return accumulate_gradients(learner, batches, update)

    monkeypatch.setattr("mtkit.training.loop.accumulate_gradients", recorded)
    assert entry.execute(["train", str(recipe), "--run-dir", str(tmp_path / "run")]) == 0
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    found = [event["loss"] for event in events if event["event"] == "train"]

    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    expected = []
    for samples in read:
        texts = ([text[sample] for sample in samples] for text in sides.values())
        src, tgt = texts
        batch = random_models.tokenizer(src, text_target=tgt, return_tensors="pt", padding=True)
        batch["labels"][batch["labels"] == random_models.tokenizer.pad_token_id] = -100
        optimiser.zero_grad()
        loss = model(**batch).loss  # in the mode of evaluation, which has no dropout
        loss.backward()
        optimiser.step()
        expected.append(float(loss.detach()))
    assert expected[-1] < 0.98 * expected[0]
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.fixture
def mbart(random_models: Models, tmp_path: Path) -> Path:
    folder = random_models.imported.parent
    return Path(shutil.copytree(folder, tmp_path / "mbart", ignore=shutil.ignore_patterns("imported")))


@pytest.mark.parametrize("random_models", ["mbart"], indirect=True)
@pytest.mark.parametrize("listed", [None, ["de_DE", "en_XX"], ["de_DE", "de_DE", "?"], "de_DE"])
def test_languages_are_found_in_the_list_of_special_tokens(mbart: Path, listed: Any) -> None:
    """An mBART without tokenizer.json, as on the hub."""
    (mbart / "tokenizer.json").unlink()
    if listed is not None:
        (mbart / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": listed}))
    if isinstance(listed, list) and "en_XX" in listed:
        assert "en_XX to de_DE" in import_model(mbart, mbart / "out", Languages("en_XX", "de_DE"))[0]
        return
    with pytest.raises(MtkitError, match=r"name no languages|has no language 'en_XX'|special_tokens_map.json: add"):
        import_model(mbart, mbart / "out", Languages("en_XX", "de_DE"))


@pytest.fixture(scope="module", params=KINDS)
def trained_models(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Models:
    return load(KINDS[request.param], tmp_path_factory.mktemp("trained"), 300)


@pytest.mark.slow
@pytest.mark.parametrize(("beams", "rewrite"), [(4, True), (4, False), (1, True)])
@torch.inference_mode()
def test_texts_and_scores_are_those_of_transformers(trained_models: Models, beams: int, rewrite: bool) -> None:
    texts, limit = lines("test.en", 200 if rewrite else 50), 60
    tokenizer = trained_models.tokenizer
    translator = load_translator(
        trained_models.imported,
        search_overrides=[f"max_length.offset={limit}", f"beam_size={beams}"],
        compute_type="float32",
        rewrite=rewrite,
        options=TranslationOptions(with_scores=True),
    )
    pairs = []
    for first in range(0, len(texts), 50):
        part = texts[first : first + 50]
        result = trained_models.theirs.generate(
            **tokenizer(part, return_tensors="pt", padding=True),
            forced_bos_token_id=trained_models.target,
            num_beams=beams,
            max_length=limit + 3,
            return_dict_in_generate=True,
            output_scores=True,
        )
        scores = result.sequences_scores.tolist() if beams > 1 else [None] * len(part)
        is_cut = ((result.sequences != 1).sum(1) >= limit + 3).tolist()
        # transformers 5 does not take all names of languages for special tokens
        name = tokenizer.convert_ids_to_tokens(trained_models.target)
        written = [
            text.removeprefix(name).strip()
            for text in tokenizer.batch_decode(result.sequences, skip_special_tokens=True)
        ]
        pairs += zip(translator.translate(part), written, scores, is_cut, strict=True)
    whole = [each for each in pairs if not each[3] and "limit" not in each[0].flags]
    assert len(whole) > 0.8 * len(texts)
    assert [ours.hyp for ours, *_ in whole] == [text for _, text, *_ in whole]
    if beams > 1:
        assert [ours.score for ours, *_ in whole] == pytest.approx([each[2] for each in whole], abs=1e-4)


@pytest.mark.whole
def test_a_cut_vocabulary_translates_as_before(trained_models: Models, tmp_path: Path) -> None:
    """Greedy, lines and translations of whose tokens none was cut; near-ties aside, all are the same."""
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for name in ("train.en", "train.de") for line in lines(name, 100)))
    words = ["compress", str(trained_models.imported), "-o", str(tmp_path / "cut"), "--text", str(text)]
    metadata = read_metadata(trained_models.imported)
    languages = [metadata.src_lang, metadata.tgt_lang]
    if metadata.languages:
        words += ["--languages", ",".join(languages)]
    assert entry.execute(words) == 0
    before, after = (
        load_translator(path, compute_type="float32", search=replace(metadata.search, beam_size=1))
        for path in (trained_models.imported, tmp_path / "cut")
    )
    kept = set(after.tokenizers.tgt.model_pieces)
    assert len(kept) < 0.95 * before.tokenizers.tgt.vocab.size
    src = lines("test.en", 200)
    hyps = list(before.translate(src))
    names = [
        {*before.tokenizers.src.ids_to_tokens(ids), *hyp.tokens}
        for ids, hyp in zip(before.tokenizers.encode("src", src), hyps, strict=True)
    ]
    compared = [number for number, tokens in enumerate(names) if tokens <= kept]
    assert len(compared) > 10
    found = after.translate_lines([src[number] for number in compared])
    same = sum(hyp == hyps[number].hyp for hyp, number in zip(found, compared, strict=True))
    assert same >= 0.99 * len(compared)
