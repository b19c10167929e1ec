"""Models that the package transformers trains on the embedded corpus, in the layout of its hub."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch

DATA = Path(__file__).parents[2] / "data"
PIECES = 500  # of each side


def lines(name: str, count: int | None = None) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").split("\n")[:-1][:count]


def train_pieces(sentences: Sequence[str], prefix: Path, size: int = PIECES, kind: str = "unigram") -> list[str]:
    """Train a model PREFIX.model with Marian's special pieces; return its ordinary pieces."""
    text = prefix.with_suffix(".txt")
    text.write_text("\n".join(sentences), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(prefix),
        model_type=kind,
        vocab_size=size,
        minloglevel=2,
        **({"hard_vocab_limit": False} if kind == "unigram" else {}),
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


def marian_tokenizer(folder: Path, *, num_lines: int = 3000, tags: Sequence[str] = ()) -> None:
    """Write source.spm, target.spm, vocab.json and the tokenizer's settings. The rarest pieces are in no vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    src = train_pieces(lines("train.en", num_lines), folder / "source")
    tgt = train_pieces(lines("train.de", num_lines), folder / "target")
    tokens = ["</s>", "<unk>", *tags, *dict.fromkeys([*tgt, *src[:-30]]), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    settings = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer", "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    for side in ("source", "target"):
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        for end in ("vocab", "txt"):
            (folder / f"{side}.{end}").unlink()


def marian_config(folder: Path, **changes: Any) -> Any:
    """A small MarianConfig for the vocabulary in a folder."""
    import transformers

    size = len(json.loads((folder / "vocab.json").read_text()))
    keys = {
        "vocab_size": size,
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
        "max_position_embeddings": 128,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": size - 1,
        "decoder_start_token_id": size - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "init_std": 0.05,
        **changes,
    }
    return transformers.MarianConfig(**keys)


def train_by_transformers(model: Any, batches: Any, *, updates: int, rate: float = 2e-3) -> None:
    """Adam with a linear warm-up; `batches` yields arguments of the model, with labels."""
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda update: min(1.0, (update + 1) / 100))
    model.train(updates > 0)
    for _ in range(updates):
        optimiser.zero_grad()
        model(**next(batches)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        with torch.no_grad():  # Marian begins to decode from a vector of zeros, which transformers has for padding
            model.get_input_embeddings().weight[model.config.pad_token_id] = 0
    model.eval()


def marian_batches(tokenizer: Any, sources: Sequence[str], targets: Sequence[str], size: int = 64) -> Any:
    generator = torch.Generator().manual_seed(1)
    while True:
        picked = torch.randint(len(sources), (size,), generator=generator).tolist()
        batch = tokenizer(
            [sources[i] for i in picked],
            text_target=[targets[i] for i in picked],
            return_tensors="pt",
            padding=True,
        )
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        yield batch


def make_marian(folder: Path, *, updates: int, **changes: Any) -> Path:
    """Train a model on the embedded corpus, and write it with its tokenizer and settings of generation.

    Without updates the weights are random.
    """
    import transformers

    marian_tokenizer(folder)
    torch.manual_seed(1)
    config = marian_config(folder, **changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        model = transformers.MarianMTModel(config)
        torch.nn.init.normal_(model.final_logits_bias, std=0.3)
        batches = marian_batches(tokenizer, lines("train.en"), lines("train.de"))
        train_by_transformers(model, batches, updates=updates)
        model.eval()
        model.generation_config = transformers.GenerationConfig(
            num_beams=4,
            max_length=128,
            bad_words_ids=[[config.pad_token_id]],
            pad_token_id=config.pad_token_id,
            eos_token_id=0,
            decoder_start_token_id=config.pad_token_id,
            forced_eos_token_id=0,
        )
        model.save_pretrained(folder)
    return folder


# a small model of many languages
MULTILINGUAL = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 128,
    "init_std": 0.05,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


def make_m2m100(folder: Path, *, updates: int) -> Path:
    """As `make_marian`, an M2M-100 of English and German with one vocabulary; 108 further tokens are languages."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    pieces = train_pieces([*lines("train.en", 2000), *lines("train.de", 2000)], folder / "sentencepiece.bpe", 600)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces[:-20]]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spm = str(folder / "sentencepiece.bpe.model")
        tokenizer = transformers.M2M100Tokenizer(str(folder / "vocab.json"), spm, src_lang="en", tgt_lang="de")
        torch.manual_seed(1)
        config = transformers.M2M100Config(vocab_size=len(tokens) + 108, **MULTILINGUAL)
        model = transformers.M2M100ForConditionalGeneration(config)
        return _trained_multilingual(folder, model, tokenizer, updates)


def make_nllb(folder: Path, *, updates: int) -> Path:
    """As `make_m2m100`, with NLLB's tokenizer of two languages."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    text = [*lines("train.en", 2000), *lines("train.de", 2000)]
    train_pieces(text, folder / "sentencepiece.bpe", 600, kind="bpe")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.NllbTokenizer.from_pretrained(
            folder, extra_special_tokens=["deu_Latn", "eng_Latn"], src_lang="eng_Latn", tgt_lang="deu_Latn"
        )
        torch.manual_seed(1)
        config = transformers.M2M100Config(vocab_size=len(tokenizer) + 2, **MULTILINGUAL)
        model = transformers.M2M100ForConditionalGeneration(config)
        return _trained_multilingual(folder, model, tokenizer, updates)


def make_mbart(folder: Path, *, updates: int) -> Path:
    """As `make_m2m100`, an mBART with the tokenizer of that of 50 languages."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    train_pieces([*lines("train.en", 2000), *lines("train.de", 2000)], folder / "sentencepiece.bpe", 600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.MBart50Tokenizer.from_pretrained(folder, src_lang="en_XX", tgt_lang="de_DE")
        torch.manual_seed(1)
        config = transformers.MBartConfig(vocab_size=len(tokenizer), scale_embedding=True, **MULTILINGUAL)
        model = transformers.MBartForConditionalGeneration(config)
        torch.nn.init.normal_(model.final_logits_bias, std=0.3)
        return _trained_multilingual(folder, model, tokenizer, updates)


def make_t5(folder: Path, *, updates: int = 0, tags: Sequence[str] = (), **changes: Any) -> Path:
    """As `make_marian`, a T5, whose tokenizer may have tokens of languages, as MADLAD-400 has."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text.txt"
    text.write_text("\n".join([*lines("train.en", 2000), *lines("train.de", 2000)]), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / "spiece"),
        vocab_size=PIECES,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        user_defined_symbols=list(tags),
        minloglevel=2,
        hard_vocab_limit=False,
    )
    sizes = {"d_model": 32, "d_kv": 12, "d_ff": 48, "num_heads": 2, "num_layers": 3, "num_decoder_layers": 2}
    special = {"pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1}
    buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.T5Tokenizer.from_pretrained(folder)
        torch.manual_seed(1)
        config = transformers.T5Config(vocab_size=640, **sizes, **special, **buckets, **changes)
        model = transformers.T5ForConditionalGeneration(config).eval()
        for name, parameter in model.named_parameters():
            if "norm" in name or "relative" in name:
                torch.nn.init.normal_(parameter, mean=1.0, std=0.5)
        if changes.get("tie_word_embeddings") is False:
            model.lm_head.weight = torch.nn.Parameter(torch.randn(640, 32) * 0.3)
        batches = marian_batches(tokenizer, lines("train.en"), lines("train.de"))
        train_by_transformers(model, batches, updates=updates)
        model.generation_config = transformers.GenerationConfig(num_beams=3, max_new_tokens=40, **special)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    text.unlink()
    return folder


def _trained_multilingual(folder: Path, model: Any, tokenizer: Any, updates: int) -> Path:
    import transformers

    tokenizer.save_pretrained(folder)
    batches = marian_batches(tokenizer, lines("train.en"), lines("train.de"))
    # decoding begins with the end, as in translation; mBART would move the last token to the front
    start = model.config.decoder_start_token_id
    batches = ({**each, "decoder_input_ids": _shifted(each["labels"], start)} for each in batches)
    train_by_transformers(model, batches, updates=updates)
    ids = {key: MULTILINGUAL[key] for key in MULTILINGUAL if key.endswith("_id")}
    model.generation_config = transformers.GenerationConfig(num_beams=4, max_length=128, early_stopping=True, **ids)
    model.save_pretrained(folder)
    return folder


def _shifted(labels: torch.Tensor, start: int) -> torch.Tensor:
    """Inputs of a decoder for labels [B, T], of which -100 is padding."""
    return torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1).where(labels != -100, 1)
