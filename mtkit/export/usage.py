"""Cards of exported models: the model's own one, with lines of Python that run in the folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from mtkit.export.equivalence import text_notes, usual_prefix
from mtkit.io.files import write_bytes
from mtkit.model_folder.config_file import MODEL_CARD
from mtkit.model_folder.folder import LoadedModel
from mtkit.search.support import options
from mtkit.text.subword.tokenizer import Side
from mtkit.text.tokenizer import model_names

LINE = "A line of text."
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"\A---\n(.*?)^---\n", re.MULTILINE | re.DOTALL)


def write_card(folder: Path, loaded: LoadedModel, library: str, usage: Sequence[str]) -> None:
    """Write the card of an exported model.

    Args:
        folder: of the export.
        loaded: the model.
        library: name of the program by which a hub of models knows it.
        usage: lines of Python.

    Raises:
        ReadWriteError: a file cannot be read or written.
    """
    card = (loaded.folder / MODEL_CARD).read_text(encoding="utf-8")
    head = match[1] if (match := _HEAD.match(card)) else ""
    body = card[match.end() :] if match else card
    head = re.sub(r"^library_name:.*\n", "", head, flags=re.MULTILINE)
    block = "\n".join(
        ["In this folder:", "", "```python", *usage, "```", *(f"\n{note}" for note in text_notes(loaded))]
    )
    body, count = _BLOCK.subn(lambda _: block, body, count=1)
    if not count:
        body += f"\n{block}\n"
    write_bytes(folder / MODEL_CARD, f"---\nlibrary_name: {library}\n{head}---\n{body}".encode())


def transformers_usage(start: str, begin: str | None, src_lang: str | None) -> list[str]:
    """Lines for the package transformers.

    Args:
        start: what sources begin with.
        begin: name of the token that translations begin with, if there is one.
        src_lang: language of the sources, if the tokenizer puts its token before them.
    """
    chosen = f", src_lang={json.dumps(src_lang)}" if src_lang else ""
    forced = f", forced_bos_token_id=tok.convert_tokens_to_ids({json.dumps(begin)})" if begin else ""
    return [
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
        "",
        'seq2seq = AutoModelForSeq2SeqLM.from_pretrained(".")  # or the name of the model on the hub',
        f'tok = AutoTokenizer.from_pretrained("."{chosen})',
        f"batch = tok([{json.dumps(start + LINE)}], return_tensors=\"pt\", padding=True)",
        f"ids = seq2seq.generate(**batch{forced})",
        "print(*tok.batch_decode(ids, skip_special_tokens=True), sep=\"\\n\")",
    ]  # fmt: skip


def ctranslate2_usage(loaded: LoadedModel, *, adds_eos: bool) -> list[str]:
    """Lines for CTranslate2, with the options of the model's search; `adds_eos`: it ends sources itself."""
    pair, prefix = loaded.tokenizers, usual_prefix(loaded)
    start = pair.src.ids_to_tokens(prefix.ids(pair))
    begin = pair.tgt.ids_to_tokens(prefix.tgt_ids(pair))
    ending = [] if adds_eos else pair.src.ids_to_tokens(pair.src.ending())
    search = loaded.metadata.search
    given = {
        **options("ctranslate2", search),
        "max_decoding_length": search.max_length.of(loaded.metadata.max_source_length) + len(begin),
    }
    if begin:
        given["target_prefix"] = [begin]
    words = [json.dumps(start)[1:-1], "*src_tokens", json.dumps(ending)[1:-1]]
    imports, encode, decode = _tokenizing(loaded, as_ids=False)
    return [
        "import ctranslate2",
        *imports,
        'translator = ctranslate2.Translator(".")',
        f"src_tokens = {encode}",
        f"result = translator.translate_batch([[{', '.join(filter(None, words))}]],",
        *(f"    {key}={value!r}," for key, value in given.items()),
        ")[0]",
        f"tokens = result.hypotheses[0][{len(begin)}:]",
        f"print({decode})",
    ]


def onnx_usage(loaded: LoadedModel) -> list[str]:
    """Lines of a greedy search with onnxruntime."""
    pair, prefix = loaded.tokenizers, usual_prefix(loaded)
    before = "".join(f"{token}, " for token in prefix.ids(pair))
    after = "".join(f", {token}" for token in pair.src.ending())
    begin, vocab = prefix.tgt_ids(pair), pair.tgt.vocab
    limit = loaded.metadata.search.max_length.of(loaded.metadata.max_source_length) + len(begin)
    imports, encode, decode = _tokenizing(loaded, as_ids=True)
    return [
        "import numpy as np",
        "import onnxruntime",
        *imports,
        'encoder, decoder = (onnxruntime.InferenceSession(f"{name}.onnx") for name in ("encoder", "decoder"))',
        "",
        "def run(session, **inputs):",
        "    names = {each.name for each in session.get_inputs()}",
        "    return session.run(None, {name: value for name, value in inputs.items() if name in names})",
        "",
        f"ids = np.array([[{before}*{encode}{after}]])",
        "real = np.ones_like(ids, dtype=bool)",
        'memory = dict(zip(("memory_keys", "memory_values"), run(encoder, ids=ids, real=real)))',
        'layers, _, heads, _, width = memory["memory_keys"].shape',
        "keys = values = np.zeros((layers, 1, 1, heads, 0, width), dtype=np.float32)",
        f"begin, tokens, token = {begin}, [], {vocab.bos}",
        f"while token != {vocab.eos} and len(tokens) < {limit}:",
        "    past = {\"past_keys\": keys, \"past_values\": values}",
        "    logits, _, keys, values = run(decoder, token=np.array([[token]]), real=real, **memory, **past)",
        "    token = begin[len(tokens)] if len(tokens) < len(begin) else int(logits[0].argmax())",
        "    tokens.append(token)",
        f"tokens = [each for each in tokens[len(begin):] if each != {vocab.eos}]",
        f"print({decode})",
    ]  # fmt: skip


def _tokenizing(loaded: LoadedModel, *, as_ids: bool) -> tuple[list[str], str, str]:
    """Imports, the tokens or ids of a line, and the text of `tokens`: by sentencepiece, else by mtkit's tokenizer."""
    pair = loaded.tokenizers
    names = model_names(pair.shared)
    files: dict[Side, str] = {"src": names[0], "tgt": names[-1]}
    is_plain = all(
        side.sentencepiece_model is not None and (not as_ids or side.sentencepiece_model == side.model)
        for side in (pair.src, pair.tgt)
    )
    line = json.dumps(LINE)
    if is_plain:
        opened = [f'{side} = sentencepiece.SentencePieceProcessor(model_file="{file}")' for side, file in files.items()]
        kind = "" if as_ids else ", out_type=str"
        return ["import sentencepiece", "", *opened], f"src.encode({line}{kind})", "tgt.decode(tokens)"
    imports = ["from pathlib import Path", "", "from mtkit.text.subword.tokenizer import Tokenizer", ""]
    opened = [f'{side} = Tokenizer.load(Path("{file}"))' for side, file in files.items()]
    encode, decode = ("encode", "decode") if as_ids else ("encode_as_tokens", "decode_tokens")
    return [*imports, *opened], f"src.{encode}([{line}])[0]", f"tgt.{decode}([tokens])[0]"
