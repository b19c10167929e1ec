"""First line from a cold start: `mtkit translate` of one line beside scripts that do less.

    python tools/benchmarks/first_line.py MODEL LINE [--rounds 10]

MODEL is a model folder or a finished run, LINE a sentence. Every round starts each program once, in turn, with bytecode
compiled before: `mtkit translate`; an import of the libraries that it loads; and a script that imports CTranslate2 and
sentencepiece and translates the line with the same weights. The least processor time and wall-clock time of the rounds
count. A ratio is to the time of the program that it is divided by, in the same run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mtkit.export.ctranslate2 import export_ctranslate2

LIBRARIES = "import numpy, safetensors, sentencepiece, typer, pydantic, yaml"
PEER = """
import sys, ctranslate2, sentencepiece
folder, model, line = sys.argv[1:]
tokenizer = sentencepiece.SentencePieceProcessor(model_file=model)
translator = ctranslate2.Translator(folder, device="cpu", intra_threads=1)
tokens = tokenizer.encode(line, out_type=str) + ["</s>"]
[result] = translator.translate_batch([tokens], beam_size=1)
print(tokenizer.decode(result.hypotheses[0]))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("line")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    folder = options.model / "model" if (options.model / "model").is_dir() else options.model
    with tempfile.TemporaryDirectory() as temporary:
        exported, text = Path(temporary) / "exported", Path(temporary) / "line"
        text.write_text(options.line + "\n", encoding="utf-8")
        export_ctranslate2(folder, exported)
        (tokenizer,) = folder.glob("s*.model")
        programs = {
            "libraries": ["-c", LIBRARIES],
            "mtkit translate": ["-m", "mtkit", "translate", str(folder), str(text), "--beam-size", "1", "--quiet"],
            "CTranslate2 script": ["-c", PEER, str(exported), str(tokenizer), options.line],
        }
        times = {name: [seconds(words) for _ in range(options.rounds + 1)][1:] for name, words in programs.items()}
    print("| program | processor time, s | wall-clock time, s |\n|---|---|---|")
    for name, measured in times.items():
        processor, wall = (min(column) for column in zip(*measured, strict=True))
        print(f"| {name} | {processor:.2f} | {wall:.2f} |")


def seconds(words: list[str]) -> tuple[float, float]:
    """Processor time and wall-clock time of one start of Python."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended - started


if __name__ == "__main__":
    main()
