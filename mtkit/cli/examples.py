"""An example of each command, for its help; a test parses them."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": ("mtkit run train.en train.de --budget 2h", "mtkit run multi30k-transformer training.seed=2"),
    "new": ("mtkit new train.en train.de --src-lang en --tgt-lang de -o en-de.yaml",),
    "fetch": ("mtkit fetch multi30k",),
    "train-bpe": ("mtkit train-bpe train.en train.de --vocab-size 8000 -o joint",),
    "train-vectors": ("mtkit train-vectors train.de -o german.vec --dim 256",),
    "encode": ("mtkit encode joint.model train.en > train.en.tokens",),
    "decode": ("mtkit decode joint.model train.en.tokens",),
    "preprocess": ("mtkit preprocess en-de.yaml",),
    "train": ("mtkit train en-de.yaml training.max_updates=4000",),
    "finetune": (
        "mtkit finetune runs/en-de memory.tmx -o runs/mine --budget 30m",
        "mtkit finetune runs/en-de mine.en mine.de --general train.en train.de -o runs/mine --keep-general 0.5",
    ),
    "watch": ("mtkit watch runs/en-de",),
    "checkpoints": ("mtkit checkpoints runs/en-de",),
    "average": ("mtkit average runs/en-de/checkpoints/update-* -o averaged",),
    "study": ("mtkit study seeds.yaml --dry-run",),
    "translate": (
        "mtkit translate runs/en-de input.en -o output.de",
        "mtkit translate runs/en-de input.en --n-best 5",
    ),
    "score": ("mtkit score runs/en-de --src input.en --ref output.de --json -",),
    "evaluate": ("mtkit evaluate first.de second.de --ref reference.de", "mtkit evaluate runs/en-de --by-length"),
    "bench": ("mtkit bench runs/en-de input.en --compute-type float32 --compute-type int8",),
    "reproduce": ("mtkit reproduce --list",),
    "keys": ("mtkit keys training",),
    "describe": ("mtkit describe quickstart --compare runs/en-de",),
    "plot": (
        "mtkit plot runs/en-de -o curves.png",
        'mtkit plot runs/en-de --attention "A dog sleeps." -o attention.png',
    ),
    "attention": ("mtkit attention runs/en-de --src valid.en --ref valid.de",),
    "nearest": ("mtkit nearest german.vec Haus Hund",),
    "doctor": ("mtkit doctor --no-speed",),
    "import": ("mtkit import opus-mt-en-de -o en-de",),
    "compress": ("mtkit compress runs/en-de --to int8 -o small",),
    "export": ("mtkit export runs/en-de --to ctranslate2 -o exported",),
    "serve": ("mtkit serve runs/en-de runs/de-en",),
}
