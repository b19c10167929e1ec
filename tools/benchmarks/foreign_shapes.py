"""Models of the shapes of NLLB-600M, mBART-50 and MADLAD-400 with random weights, beside the package transformers.

    python tools/benchmarks/foreign_shapes.py WORK [--parts scores memory training] [--shapes nllb mbart t5]

scores: log-probabilities of 20 given targets in float32, by the reference implementation and the native backend.
memory: peak of a training of updates of 2,048 padded tokens a side, by LoRA and by Adafactor, with activation
checkpointing. training: processor seconds of an update beside transformers' Trainer (with accelerate; LoRA with peft),
in turn, of equal batches. Each is measured in a process of its own, on one thread; models are kept in WORK. Words are
numbers, so that a word is a token. T5 has 6 layers a side, so that both of its copies fit into 8 GiB.
`decoding_speed.py WORK/nllb/model WORK/src` compares translation with CTranslate2.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

UPDATES, SENTENCES, LENGTH = 4, 64, 32  # padded tokens of an update: 64 sentences of 30 words, language and end
TARGETS, WORDS = 20, 24
RECIPE = """\
corpus:
  src_lang: {langs[0]}
  tgt_lang: {langs[1]}
  train: [{{src: {work}/src, tgt: {work}/tgt}}]
  cleaning: {{max_length: 100}}
model: {config}
training:
  init_from: {work}/{shape}/model
  max_updates: {updates}
  batch_tokens: 2048
  precision: float32
  optimiser: {{kind: adafactor, learning_rate: 1e-4}}
  schedule: {{kind: constant}}
  activation_checkpointing: true
  label_smoothing: 0
  ema: null
  log_every: 1
  validate_every: 1000
  checkpoint_every: 1000
"""
LORA = "  adapter: {kind: lora, rank: 8}\n"
SHAPES: dict[str, dict[str, Any]] = {
    "nllb": {
        "langs": ("eng_Latn", "deu_Latn"),
        "size": 256_000,
        "class": "M2M100",
        "config": {"activation_function": "relu", "scale_embedding": True},
    },
    "mbart": {
        "langs": ("en_XX", "de_DE"),
        "size": 250_000,
        "class": "MBart",
        "config": {"activation_function": "gelu", "scale_embedding": True},
    },
    "t5": {
        "langs": ("en", "de"),
        "size": 256_000,
        "class": "T5",
        "config": {
            "d_model": 1024, "d_ff": 8192, "d_kv": 128, "num_heads": 16, "num_layers": 6, "num_decoder_layers": 6,
            "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "pad_token_id": 0, "eos_token_id": 1,
            "decoder_start_token_id": 0,
        },
    },
}  # fmt: skip
BART = {
    "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16, "decoder_attention_heads": 16, "max_position_embeddings": 1024, "init_std": 0.05,
    "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2,
}  # fmt: skip


def main() -> None:
    """Measure the parts that were asked for; a process that this one starts measures one thing and prints it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--parts", nargs="*", default=["scores", "memory", "training"])
    parser.add_argument("--shapes", nargs="*", default=[*SHAPES], choices=[*SHAPES])
    parser.add_argument("--ways", nargs="*", default=["lora", "adafactor"])
    parser.add_argument("--updates", type=int, default=UPDATES, help="of --parts training; the first does not count")
    parser.add_argument("--one", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    work = options.work.resolve()
    if options.one:
        print(json.dumps(ONE[options.one[0]](work, *options.one[1:])))
        return
    work.mkdir(parents=True, exist_ok=True)
    write_texts(work)
    for shape in options.shapes if "scores" in options.parts else ["nllb"]:
        if not (work / shape / "model" / "config.json").exists():
            alone(work, "make", shape)
        if "scores" in options.parts:
            expected, peak = alone(work, "score", shape, "transformers")
            for engine in ("reference", "native"):
                found, mine = alone(work, "score", shape, engine)
                worst = max(abs(a - b) / abs(b) for a, b in zip(found, expected, strict=True))
                print(f"{shape}: {engine}: {worst:.1e} relative at most; {mine:.1f} GiB, transformers {peak:.1f} GiB")
    for way in options.ways:
        if "memory" in options.parts:
            times, peak = alone(work, "train", way, "1")
            print(f"{way}: peak {peak:.2f} GiB, {times[0]:.0f} s of the processor", flush=True)
        if "training" in options.parts:
            rates = {}
            for engine in ("train", "trainer"):
                times, peak = alone(work, engine, way, str(options.updates))
                rates[engine] = times[1:]
                shown = " ".join(f"{each:.1f}" for each in times)
                print(f"{way}: {engine}: {shown} s of the processor an update; {peak:.2f} GiB", flush=True)
            ratio = statistics.median(rates["trainer"]) / statistics.median(rates["train"])
            print(f"{way}: {ratio:.2f} times transformers' speed", flush=True)


def alone(work: Path, *words: str) -> tuple[Any, float]:
    """What a process finds out, and its peak of memory in GiB."""
    command = [sys.executable, __file__, str(work), "--one", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)} failed")
    return json.loads(output.strip().split(b"\n")[-1]), usage.ru_maxrss / 2**20


def word(number: int) -> str:
    """The word of a token."""
    return f"w{number:06d}"


def write_texts(work: Path) -> None:
    """Sentences of equal length for two sides."""
    generator = random.Random(1)
    for side in ("src", "tgt"):
        lines = (
            " ".join(word(generator.randrange(200_000)) for _ in range(LENGTH - 2)) for _ in range(SENTENCES * UPDATES)
        )
        (work / side).write_text("".join(f"{line}\n" for line in lines))


def make(work: Path, shape: str) -> None:
    """A model with random weights as transformers writes it, and as mtkit imports it."""
    import torch
    import transformers

    from mtkit.importers.import_model import Languages, import_model
    from mtkit.text.normalise import SPACE_MARK
    from mtkit.text.subword.protobuf import MODEL_TYPE, TRAINER_SPEC, PieceType, bytes_field, number_field, piece_field

    about, folder = SHAPES[shape], work / shape / "theirs"
    is_t5, size = shape == "t5", about["size"]
    torch.manual_seed(1)
    config = {**({} if is_t5 else BART), **about["config"], "vocab_size": size + (0 if is_t5 else 206)}
    config = getattr(transformers, f"{about['class']}Config")(**config)
    model = getattr(transformers, f"{about['class']}ForConditionalGeneration")(config)
    model.save_pretrained(folder)
    del model
    names = ["<pad>", "</s>", "<unk>"] if is_t5 else ["<unk>", "<s>", "</s>"]
    kinds = {"<unk>": PieceType.UNKNOWN}
    pieces = [piece_field(name, kind=kinds.get(name, PieceType.CONTROL)) for name in names]
    pieces += [piece_field(SPACE_MARK + word(number), -1.0) for number in range(size - len(names) - (not is_t5))]
    content = b"".join(pieces) + bytes_field(TRAINER_SPEC, number_field(MODEL_TYPE, 1))
    (folder / ("spiece.model" if is_t5 else "sentencepiece.bpe.model")).write_bytes(content)
    if not is_t5:
        (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": [*about["langs"]]}))
    import_model(folder, work / shape / "model", Languages(*about["langs"]))


def score(work: Path, shape: str, engine: str) -> list[float]:
    """Log-probabilities of targets."""
    generator, offset = random.Random(2), 3 if shape == "t5" else 4
    pairs = [[[generator.randrange(200_000) for _ in range(WORDS)] for _ in "st"] for _ in range(TARGETS)]
    if engine != "transformers":
        from mtkit.translate.load import load_scorer

        texts = [tuple(" ".join(map(word, side)) for side in pair) for pair in pairs]
        scorer = load_scorer([work / shape / "model"], compute_type="float32", rewrite=engine == "native", threads=1)
        return [each.log_prob for each in scorer(iter(texts))]
    import torch
    import transformers

    torch.set_num_threads(1)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(work / shape / "theirs").eval()
    size, found = SHAPES[shape]["size"], []
    eos, start = model.config.eos_token_id, model.config.decoder_start_token_id
    languages = [[], []] if shape == "t5" else [[size], [size + 1]]
    for pair in pairs:
        src, tgt = (lang + [offset + each for each in side] + [eos] for lang, side in zip(languages, pair, strict=True))
        with torch.inference_mode():
            decoder = torch.tensor([[start, *tgt[:-1]]])
            logits = model(input_ids=torch.tensor([src]), decoder_input_ids=decoder).logits[0]
        log_probs = logits.log_softmax(-1).gather(1, torch.tensor(tgt)[:, None])[len(languages[0]) :]
        found.append(float(log_probs.sum()))
    return found


def train(work: Path, way: str, updates: str) -> list[float]:
    """Processor seconds of each update of mtkit."""
    from mtkit.cli import entry

    run = work / f"run-{way}-{updates}"
    config = json.loads((work / "nllb" / "model" / "config.json").read_text())["model"]
    values = {"work": work, "shape": "nllb", "updates": updates, "langs": SHAPES["nllb"]["langs"]}
    recipe = RECIPE.format(config=json.dumps(config), **values) + (LORA if way == "lora" else "")
    path = run.with_suffix(".yaml")
    path.write_text(recipe)
    status = entry.execute(["train", str(path), "--run-dir", str(run), "--fresh"])
    if status:
        sys.exit(status)
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().split("\n")[:-1]]
    seconds = [event["processor_seconds"] for event in events if event["event"] == "train"]
    return [after - before for before, after in itertools.pairwise([0.0, *seconds])]


def trainer(work: Path, way: str, updates: str) -> list[float]:
    """Processor seconds of each update of transformers' Trainer."""
    import torch
    import transformers

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(work / "nllb" / "theirs")
    if way == "lora":
        import peft

        # the projections that mtkit adapts
        names = ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"]
        model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=names, lora_dropout=0.0))
        model.enable_input_require_grads()
    size, ended = SHAPES["nllb"]["size"], list[float]()
    lines = [(work / side).read_text().split("\n")[:-1] for side in ("src", "tgt")]
    sides = [[[4 + int(each[1:]) for each in line.split()] for line in side] for side in lines]
    rows = [
        {"input_ids": [size, *src, 2], "attention_mask": [1] * LENGTH, "labels": [size + 1, *tgt, 2]}
        for src, tgt in zip(*sides, strict=True)
    ]

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            ended.append(time.process_time())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            ended[-1] = time.process_time() - ended[-1]

    arguments = transformers.Seq2SeqTrainingArguments(
        output_dir=str(work / "trainer"),
        per_device_train_batch_size=SENTENCES,
        max_steps=int(updates),
        optim="adafactor",
        gradient_checkpointing=True,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        lr_scheduler_type="constant",
    )
    transformers.Seq2SeqTrainer(model=model, args=arguments, train_dataset=rows, callbacks=[Clock()]).train()
    return ended


ONE = {"make": make, "score": score, "train": train, "trainer": trainer}

if __name__ == "__main__":
    main()
