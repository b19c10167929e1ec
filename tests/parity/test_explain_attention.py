"""Attention of `mtkit explain` is that which the package transformers computes with the same weights."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from mtkit.analysis.explanation import Explainer
from mtkit.importers.import_model import Languages, import_model
from tests.toy.foreign_models import lines, make_marian


@pytest.mark.whole
def test_every_head_is_that_of_marian(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_marian(tmp_path, updates=30)
        import_model(tmp_path, tmp_path / "imported", Languages())
        theirs = transformers.MarianMTModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
        tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    explainer, (sentence, instead) = Explainer(tmp_path / "imported"), lines("test.en", 2)
    explained = explainer.explain(sentence, instead)
    assert explained.instead is not None
    for text in (explained.translation, explained.instead):
        labels = tokenizer(text_target=text.text, return_tensors="pt").input_ids
        begin = torch.full((1, 1), theirs.config.decoder_start_token_id)
        with torch.inference_mode():
            output = theirs(
                **tokenizer(sentence, return_tensors="pt"),
                decoder_input_ids=torch.cat([begin, labels[:, :-1]], 1),
                output_attentions=True,
            )
        expected = {
            (path.format(layer), head): weights[0, head]
            for path, layers in (
                ("encoder.{}.attention", output.encoder_attentions),
                ("decoder.{}.attention", output.decoder_attentions),
                ("decoder.{}.cross_attention", output.cross_attentions),
            )
            for layer, weights in enumerate(layers)
            for head in range(weights.size(1))
        }
        ours = {(each.module, each.head): torch.tensor(each.weights) for each in text.attention}
        assert {name for name in ours if isinstance(name[1], int)} == expected.keys()
        for name, weights in expected.items():
            torch.testing.assert_close(ours[name], weights, atol=1e-4, rtol=0)
