"""An imported Marian model of full size beside CTranslate2's conversion of it and transformers.generate.

    python tools/benchmarks/imported_marian.py [--lines 32] [--rounds 3]

The model has random weights (6 + 6 layers, width 512, 58,101 tokens). Each line has 20 source tokens, and every engine
writes exactly 20 tokens, so that all do the same work, on one thread each, in interleaved rounds. Seconds are those of
the processor, which other programs on the machine hardly change. Load time and memory are of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

LENGTH, VOCABULARY = 20, 58_101
WORDS = 200  # distinct words of the source, a token each
MEMORY = """
import sys, time, resource
begin = time.perf_counter(), time.process_time()
from mtkit.translate.load import load_translator
overrides = ["beam_size=1", "max_length.offset=5"]
translator = load_translator(sys.argv[1], compute_type=sys.argv[2], search_overrides=overrides)
seconds = time.perf_counter() - begin[0], time.process_time() - begin[1]
translator.translate_lines(["w1 w2 w3"])
private = sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Private_Dirty"))
print(*seconds, private / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def make_model(folder: Path) -> None:
    """Write a random model with a tokenizer that has a token for each word."""
    import sentencepiece
    import torch
    import transformers

    text = folder / "text.txt"
    text.write_text("\n".join(f"w{number}" for number in range(WORDS)))
    for name in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(folder / name), model_type="word", vocab_size=WORDS + 3, minloglevel=2
        )
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
    tokens = ["</s>", "<unk>", *(f"\u2581w{n}" for n in range(WORDS))]
    tokens += [*(f"filler{n}" for n in range(VOCABULARY - len(tokens) - 1)), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({token: n for n, token in enumerate(tokens)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    torch.manual_seed(1)
    layers = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in SIZES.items()}
    ids = {"pad_token_id": VOCABULARY - 1, "decoder_start_token_id": VOCABULARY - 1, "eos_token_id": 0}
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=512, scale_embedding=True, activation_function="swish", **ids, **layers
    )
    model = transformers.MarianMTModel(config)
    settings = {"num_beams": 4, "max_length": 512, "bad_words_ids": [[VOCABULARY - 1]], **ids}
    model.generation_config = transformers.GenerationConfig(**settings)
    model.save_pretrained(folder)


SIZES = {"layers": 6, "attention_heads": 8, "ffn_dim": 2048}


def engines(folder: Path, texts: list[str]) -> dict[str, Callable[[int], Any]]:
    """Functions that translate the texts with a beam size, by name."""
    import ctranslate2
    import torch
    import transformers

    from mtkit.translate.load import load_translator

    found: dict[str, Callable[[int], Any]] = {}
    limits = [f"{key}.{part}" for key in ("max_length", "min_length") for part in (f"offset={LENGTH}", "factor=0")]
    tokens = [[*("\u2581" + word for word in text.split()), "</s>"] for text in texts]
    options = {"max_decoding_length": LENGTH + 1, "min_decoding_length": LENGTH}
    for dtype in ("float32", "int8"):
        models = {
            beams: load_translator(
                folder / "imported",
                compute_type=dtype,
                threads=1,
                search_overrides=[*limits, f"beam_size={beams}", *(["early_stopping=true"] if beams > 1 else [])],
            )
            for beams in (1, 4)
        }
        found[f"mtkit {dtype}"] = lambda beams, models=models: models[beams].translate_lines(texts)
        peer = ctranslate2.Translator(str(folder / f"ct2-{dtype}"), compute_type=dtype, intra_threads=1)
        found[f"CTranslate2 {dtype}"] = lambda beams, peer=peer: peer.translate_batch(
            tokens, beam_size=beams, max_batch_size=1024, batch_type="tokens", **options
        )
    torch.set_num_threads(1)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    batch = transformers.MarianTokenizer.from_pretrained(folder)(texts, return_tensors="pt", padding=True)
    found["transformers float32"] = lambda beams: model.generate(
        **batch, num_beams=beams, max_length=LENGTH + 2, min_length=LENGTH + 2, early_stopping=True
    )
    return found


def main() -> None:
    """Make the model, measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(folder)
        from mtkit.importers.import_model import Languages, import_model

        import_model(folder, folder / "imported", Languages())
        for dtype in ("float32", "int8"):
            command = ["ct2-transformers-converter", "--model", name, "--output_dir", f"{name}/ct2-{dtype}"]
            subprocess.run([*command, "--quantization", dtype], check=True, capture_output=True)
            for _ in range(2):
                program = [sys.executable, "-c", MEMORY, f"{name}/imported", dtype]
                done = subprocess.run(program, check=True, capture_output=True, text=True)
                wall, processor, private, peak = map(float, done.stdout.split())
            loaded = f"loaded in {wall:.2f} s, {processor:.2f} s of the processor"
            print(f"mtkit {dtype}: {loaded}; private {private:.0f} MB, peak with the file {peak:.0f} MB", flush=True)
        rng = random.Random(1)
        texts = [" ".join(f"w{rng.randrange(WORDS)}" for _ in range(LENGTH)) for _ in range(options.lines)]
        translate = engines(folder, texts)
        times: dict[tuple[str, int], list[float]] = {}
        for _ in range(options.rounds):
            for beams in (1, 4):
                for engine, run in translate.items():
                    begin = time.process_time()
                    run(beams)
                    times.setdefault((engine, beams), []).append(time.process_time() - begin)
        for (engine, beams), seconds_of in times.items():
            rate = options.lines / min(seconds_of)
            print(
                f"beam {beams}  {engine:22} {rate:8.2f} lines/s of processor  {[round(each, 2) for each in seconds_of]}"
            )


if __name__ == "__main__":
    main()
