"""Answers to options of other programs: fairseq, Marian, OpenNMT, CTranslate2, sacreBLEU, sentencepiece and others.

Words that are keys of recipes are in `recipe/synonyms.py`.
"""

from __future__ import annotations

from collections.abc import Container

_STAGES = ("run", "train", "preprocess")
_OF_MODELS = (
    *("translate", "score", "serve", "export", "compress"),
    *("finetune", "describe", "attention", "bench", "plot"),
)
_HYP = "translations are arguments: mtkit evaluate HYP --ref REF"
_INPUT = (
    "--src FILE",
    "translate: the text is an argument: mtkit translate MODEL FILE, or - for stdin",
    "train-bpe: the texts are arguments: mtkit train-bpe FILE... -o PREFIX",
    "finetune: the texts are arguments: mtkit finetune MODEL SRC TGT",
    *(f"{each}: the texts are arguments: mtkit {each} SRC TGT" for each in ("run", "new")),
)
_MODEL = (
    "import: the folder is an argument: mtkit import FOLDER -o MODEL",
    *(f"{each}: RECIPE is an argument: mtkit {each} RECIPE" for each in _STAGES),
    *(f"{each}: MODEL is an argument: mtkit {each} MODEL" for each in _OF_MODELS),
)
_RESUMES = [f"{each}: a training that was interrupted resumes by itself: repeat its command" for each in _STAGES]

# (words, answers); of the answers the first counts that begins with an option of the command, or with its name
_TABLE = (
    ("greedy greedy-search", "--beam-size 1"),
    ("beam beam-width beamsize num-beams b k", "--beam-size N"),
    ("nbest n", "--n-best N"),
    ("sampling do-sample random-sampling", "--sample 1"),
    ("temperature sampling-temperature t", "--sample TEMPERATURE"),
    ("top-k topk sampling-topk", "--sample 1 --set search.method.top_k=N"),
    ("top-p topp nucleus sampling-topp", "--sample 1 --set search.method.top_p=P"),
    ("alpha lenpen length-alpha length-norm normalize", "--length-penalty ALPHA"),
    ("max-len max-len-a max-len-b max-output-length max-decoding-length max-new-tokens", "--max-length N"),
    ("no-repeat-ngram-size block-ngram-repeat", "--set search.no_repeat_ngram=N"),
    ("coverage-penalty", "--set search.coverage_penalty=BETA"),
    ("repetition-penalty", "--set search.repetition_penalty=X"),
    ("input i", f"evaluate: {_HYP}", *_INPUT),
    ("src source source-file inp", *_INPUT),
    ("tgt target target-file r reference references refs", "--ref FILE"),
    ("hyp hyps hypothesis sys system translation", f"evaluate: {_HYP}", "--ref FILE"),
    ("m metric metrics-list", "--metrics LIST"),
    ("m model models model-path model-dir path checkpoint ckpt checkpoint-path", *_MODEL),
    ("w width decimals", "evaluate: --json FILE has all digits"),
    ("tok", "--tokenize NAME"),
    ("lc lowercase", "evaluate: --moses scores lower-cased tokens, as published for Multi30k"),
    ("test-set t l language-pair langpair echo", f"evaluate: test sets are files, and {_HYP}"),
    ("paired-bs paired-ar confidence", "evaluate: give several HYP; each is compared with the first by both tests"),
    ("f", "--format FORM"),
    ("num-merges merges num-operations operations symbols s vocab vocabsize voc-size", "--vocab-size N, in tokens"),
    ("type algorithm", "--model-type bpe|unigram|word|char"),
    ("out-dir output-dir save-dir save-path save-model model-save-path exp log-dir", "--run-dir FOLDER", "-o FILE"),
    ("model-prefix model-name out output-file codes write-vocabulary", "-o FILE"),
    ("config conf c recipe yaml cfg", *(f"{each}: RECIPE is an argument: mtkit {each} RECIPE" for each in _STAGES)),
    ("resume-from restore-file train-from load-checkpoint continue reload", *_RESUMES),
    ("overwrite force restart reset no-reload", "--fresh"),
    ("gpu gpus cuda use-gpu use-cuda gpu-id gpuid", "--device cuda"),
    ("cpu no-cuda use-cpu", "--device cpu"),
    ("fp16 half bf16 amp", "--compute-type bf16"),
    ("int8 quantize quantization load-in-8bit", "--compute-type int8", "compress: give --to int8"),
    ("fp32 float", "--compute-type float32"),
    ("batch-size batch max-tokens mini-batch mini-batch-words max-batch-size", "--batch-tokens N"),
    ("num-threads cpu-threads intra-threads omp-threads nthreads", "--threads N", "--workers N"),
    ("num-workers processes jobs j inter-threads num-proc", "--workers N"),
    ("lang language languages l", "--lang CODE"),
    ("source-lang src-language source-language s", "--src-lang CODE", "--tag TEXT"),
    ("target-lang tgt-lang tgt-language target-language", "--tgt-lang CODE", "--tag TEXT"),
    ("load-only", "serve: the models that are given state the languages"),
    ("api-keys api-key", "--keys FILE"),
    ("char-limit", "--max-characters N"),
    ("req-limit rate-limit", "--max-requests N"),
    ("listen bind address", "--host ADDRESS"),
    ("verbose v verbosity log-level", "--log requests", "--debug"),
    ("silent no-progress", "--quiet"),
    ("attn-vis attention-plot", "--attention SENTENCE"),
    ("alignment alignments-file print-alignment report-align", "--alignments FILE"),
    ("scores print-score with-score", "--jsonl"),
    ("lexical-constraints force-words glossary-file terms", "--glossary FILE"),
    ("prefix-file target-prefix-file", "--target-prefix FILE"),
)


def option_answer(option: str, command: str, options: Container[str]) -> str | None:
    """The answer of a command to an option that it lacks, such as "give --beam-size 1"; None if nothing is known.

    Args:
        option: as typed, such as --greedy.
        command: its name.
        options: those that it has.
    """
    word = option.lstrip("-").replace("_", "-").lower()
    for words, *answers in _TABLE:
        for answer in answers if word in words.split() else ():
            name, _, text = answer.partition(": ")
            if answer.startswith("-") and answer.split()[0] in options:
                return f"give {answer}"
            if name == command:
                return text
    return None
