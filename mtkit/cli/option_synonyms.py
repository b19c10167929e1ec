"""Answers to options of other programs: fairseq, Marian, OpenNMT, CTranslate2, sacreBLEU, sentencepiece and others.

Words that are keys of recipes are in `recipe/synonyms.py`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from typing import Any, Literal, get_args, get_origin

from mtkit.recipe.sections import Recipe
from mtkit.recipe.suggestions import keys_of_option, other_answer, word_parts
from mtkit.recipe.type_hints import has_path, unwrap_hint

_NOISE = {"use", "num", "file", "path", "name", "id", "list", "the", "print"}  # parts of options that change nothing

_STAGES = ("run", "train", "preprocess")
_OF_MODELS = (
    *("translate", "score", "serve", "export", "compress"),
    *("finetune", "describe", "explain", "bench", "plot"),
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
    *(f"{each}: TOKENIZER is an argument: mtkit {each} TOKENIZER" for each in ("encode", "decode")),
    "import: the folder is an argument: mtkit import FOLDER -o MODEL",
    *(f"{each}: RECIPE is an argument: mtkit {each} RECIPE" for each in _STAGES),
    *(f"{each}: MODEL is an argument: mtkit {each} MODEL" for each in _OF_MODELS),
)
_BATCH_KEYS = [f"{each}: keys of a recipe are arguments: training.batch_tokens=N" for each in _STAGES]
_DISTRIBUTED = [f"{each}: torchrun starts a process for each GPU (docs/distributed.md)" for each in _STAGES]
_RESUMES = [f"{each}: a training that was interrupted resumes by itself: repeat its command" for each in _STAGES]

# (words, answers); of the answers the first counts that begins with an option of the command, or with its name
_TABLE = (
    ("greedy greedy-search", "--beam-size 1"),
    ("beam beam-width beamsize num-beams b k", "--beam-size N"),
    ("nbest n", "--n-best N"),
    ("sampling do-sample random-sampling", "--sample 1"),
    ("temperature sampling-temperature random-sampling-temp softmax-temperature t", "--sample TEMPERATURE"),
    ("top-k topk sampling-topk random-sampling-topk", "--sample 1 --set search.method.top_k=N"),
    ("top-p topp nucleus sampling-topp random-sampling-topp", "--sample 1 --set search.method.top_p=P"),
    ("alpha lenpen length-alpha length-norm normalize", "--length-penalty ALPHA"),
    ("language-model lm-path fusion", "--lm MODEL"),
    ("time max-time time-limit", "--budget TIME"),
    ("k topk top-k top", "--count NUMBER"),
    ("max-len max-len-a max-len-b max-output-length max-decoding-length max-new-tokens", "--max-length N"),
    ("no-repeat-ngram-size block-ngram-repeat", "--set search.no_repeat_ngram=N"),
    ("coverage-penalty", "--set search.coverage_penalty=BETA"),
    ("repetition-penalty", "--set search.repetition_penalty=X"),
    ("attention show-attention attn-vis attention-plot", "--alignments FILE",
     "plot: mtkit explain MODEL SENTENCE --html FILE draws attention"),
    ("lp", "--length-penalty ALPHA"),
    ("hypotheses predictions", f"evaluate: {_HYP}"),
    ("bootstrap num-bootstrap", "evaluate: intervals are from 1,000 samples anyway; several HYP are compared in pairs"),
    ("data train-data corpus files", *_INPUT[2:]),
    ("prune pruning sparsity", "compress: give --to sparse, heads or ffn, and --fraction X"),
    ("bits", "compress: give --to int8 or --to int4"),
    ("from source-model", "import: the folder is an argument: mtkit import FOLDER -o MODEL"),
    ("workers-per-model num-workers", "--workers N"),
    ("base-model pretrained pretrained-model", *(each for each in _MODEL if each.startswith(("finetune", "serve")))),
    ("weights pretrained pretrained-model",
     *(f"{each}: keys of a recipe are arguments: training.init_from=MODEL" for each in _STAGES)),
    ("text-file", "translate: the text is an argument: mtkit translate MODEL FILE, or - for stdin"),
    ("text sentence sentences query q", "translate: a text is given on stdin: echo TEXT | mtkit translate MODEL"),
    ("input i", f"evaluate: {_HYP}", *_INPUT),
    ("src source source-file inp", *_INPUT),
    ("tgt target target-file r reference references refs", "--ref FILE"),
    ("gold golds", "--ref FILE"),
    ("hyp hyps hypothesis sys system translation pred preds predictions output candidate", f"evaluate: {_HYP}",
     "--ref FILE"),
    ("m metric metrics-list", "--metrics LIST"),
    ("model-dir", *(f"{each}: give --run-dir FOLDER" for each in _STAGES)),
    ("m model models model-path model-dir path checkpoint ckpt checkpoint-path ckpt-path", *_MODEL),
    ("checkpoints", "--ensemble MODEL", *_MODEL),
    ("inputs", "average: checkpoints are arguments: mtkit average RUN/checkpoints/update-* -o DIR", *_INPUT),
    ("num-epoch-checkpoints num-update-checkpoints n-checkpoints last-n num n",
     "average: checkpoints are arguments: mtkit average RUN/checkpoints/update-* -o DIR"),
    ("decode-from-file stdin interactive", *_INPUT),
    ("save-results decode-to-file hyp-file result-path results-path", "-o FILE"),
    ("remove-bpe post-process detokenize moses-detokenizer bpe tokenizer spm-model sentencepiece-model vocab-file "
     "source-vocab vocabs bpe-codes",
     "translate: the model has its tokenizer: text in, text out",
     "score: the model has its tokenizer: text in"),
    ("unkpen unk-penalty replace-unk strip-unknown-words allow-unk",
     "translate: <unk> is never written; search.allow_unknown is the key of --set"),
    ("xml-input xml", "translate: a file whose name ends in .xml, .xliff or .html is a document"),
    ("shortlist lexical-shortlist restrict-lexicon nvs nvs-thresh",
     "translate: all words are scored; a shortlist is not supported"),
    ("prefix-size prefix-tokens decoder-prefix output-prefix hyp-prefix", "--target-prefix TEXT"),
    ("sample-size num-samples", "--n-best N"),
    ("ip", "--host ADDRESS"),
    ("sentence-level sentence-scores", "evaluate: mtkit score has values by line, and --by-length by length"),
    ("destdir dest-dir data-dir data-bin", "--run-dir FOLDER"),
    ("world-size num-gpus gpu-ranks nproc-per-node distributed-world-size nnodes distributed master-port master-addr "
     "local-rank",
     *_DISTRIBUTED, "--device cuda"),
    ("w width decimals", "evaluate: --json FILE has all digits"),
    ("detok moses-detok", "evaluate: texts are scored as they are; give detokenized text"),
    ("output-format format-output", "--format FORM", "--to FORMAT", "--ids"),
    ("tok", "--tokenize NAME"),
    ("bleu chrf ter chrf-word-order sacrebleu", "--metrics LIST"),
    ("no-cache cache", "translate: keys and values are always kept, translations never",
     "serve: give --cache MB; 0 keeps none",
     *(f"{each}: give --fresh; without it what is done already is not done again" for each in ("run", "train"))),
    ("csv tsv json delimiter output-type", "evaluate: --format FORM and --json FILE choose the form"),
    ("encoding", "evaluate: texts are UTF-8"),
    ("short citation signature", "evaluate: --json FILE has the signatures"),
    ("force", "evaluate: texts are scored as they are, tokenized or not"),
    ("subset download origlang list", f"evaluate: test sets are files, and {_HYP}"),
    ("ssl certfile keyfile tls https grpc", "serve: a proxy before it has certificates and other protocols"),
    ("cors-origins origins", "--allowed-hosts NAMES"),
    ("gpu-memory gpu-memory-utilization max-model-memory", "--max-memory GB"),
    ("url-prefix base-url", "--root-path PATH"),
    ("daily-limit hourly-limit", "--max-requests N"),
    ("batch-limit max-text", "--max-characters N"),
    ("model-config served-model-name update-models reload", "serve: models are arguments: mtkit serve MODEL..."),
    ("claims", "--list"),
    ("queue max-queue", "--max-waiting N"),
    ("batch-size max-batch", "serve: lines that wait are batched by themselves"),
    ("web-ui web ui frontend", "serve: the page is always served, and has the language of the browser"),
    ("metrics prometheus", "serve: /metrics is always served"),
    ("log", "translate: notes are on stderr: 2> FILE"),
    ("log-file log-format logfile", "serve: the log is on stderr: 2> FILE",
     *(f"{each}: the log is log.jsonl in the folder of the run" for each in _STAGES)),
    ("progress progress-bar no-progress-bar", "--quiet",
     *(f"{each}: there is a bar on a terminal alone: 2> FILE" for each in (*_STAGES, "finetune"))),
    ("do-train do-eval do-predict with-eval skip-test skip-training until only from-stage stage skip only-source",
     *(f"{each}: stages are commands: mtkit train-bpe, preprocess, train, evaluate; what is done is skipped" for each
       in _STAGES)),
    ("export-on-best", *(f"{each}: mtkit export makes other layouts of a trained model" for each in _STAGES)),
    ("auto-config", *(f"{each}: give --budget TIME" for each in ("run", "train"))),
    ("env", *(f"{each}: keys of a recipe are arguments: KEY=VALUE" for each in _STAGES)),
    ("stdout in-place append", "-o FILE"),
    ("follow streaming stream buffered", "--flush-every N"),
    ("asynchronous async", "translate: mtkit serve answers many at once"),
    ("spm-decode spm-encode share-vocab vocab data-type joined-dictionary source-dict",
     "translate: the model has its tokenizer: text in, text out"),
    ("preserve-formatting formality", "translate: documents keep their form; what a model has tags for is --tag TEXT"),
    ("empty-lines keep-empty", "translate: a blank line stays one"),
    ("no-split", "translate: give --no-split-sentences"),
    ("split", "--split-sentences"),
    ("optimize gemm-type int8shift packed avx2 mkl", "translate: kernels are chosen by the machine"),
    ("skip-cost skip-topk dump-beam beam-info raw-probs sure-align-threshold", "translate: --jsonl has the details"),
    ("to from", "--tgt-lang CODE"),
    ("vocab-mapping copy-files opset task optimize gguf low-cpu-mem-usage force",
     "export: nothing of the kind is to be set; --to names the format", "import: all that a model needs is copied"),
    ("revision trust-remote-code", "import: nothing of a model is executed, and ORG/NAME is its present version"),
    ("calibration group-size teacher",
     "compress: nothing of the kind is to be set; --src and --ref choose and measure"),
    ("warmup runs rounds", "bench: give --repeat N"),
    ("device gpu cuda", "bench: CPUs are measured"),
    ("best metric", "average: checkpoints are arguments; training.checkpoint_average chooses them by their metric"),
    ("extra-options generate-vocabulary", "encode: --ids alone can be chosen"),
    ("nbest-size alpha", "encode: text has one segmentation; tokenizer.subword_regularization samples in training"),
    ("summary compute-bleu", "score: --json FILE summarises, and mtkit evaluate has BLEU"),
    ("normalize", "score: --jsonl has the number of tokens of each line"),
    ("merge", "finetune: the model of an adapter is whole in RUN/model"),
    ("workers num-threads", *(f"{each}: a few threads are used, as many on any machine" for each in ("train-bpe",
     "preprocess"))),
    ("score-only quiet", "--quiet", "evaluate: --json - and --format tsv write nothing else"),
    ("max-input-length max-source-length max-src-len chunk-size",
     "translate: lines longer than any training source are translated in parts; search.split_long_lines is the key"),
    ("bad-words avoid banned-words", "--constraints FILE"),
    ("report-time timing stats", "translate: the rate is on stderr; mtkit bench measures speed"),
    ("force-decode forced-decoding score-reference", "translate: mtkit score MODEL --src FILE --ref FILE scores texts"),
    ("workspace", "--batch-tokens N"),
    ("cors allow-origin", "--allowed-hosts NAMES"),
    ("problem hparams hparams-set task",
     *(f"{each}: RECIPE is an argument and has all settings: mtkit {each} RECIPE" for each in _STAGES)),
    ("lc lower-case do-lower-case uncased case-insensitive ignore-case", "--lowercase"),
    ("lowercase lc", *(f"{each}: keys of a recipe are arguments: tokenizer.lowercase=true" for each in _STAGES)),
    ("test-set t l language-pair langpair echo", f"evaluate: test sets are files, and {_HYP}"),
    ("paired-bs paired-ar confidence significance",
     "evaluate: give several HYP; each is compared with the first by both tests"),
    ("f", "--format FORM"),
    ("num-merges merges num-operations operations symbols s vocab vocabsize voc-size", "--vocab-size N, in tokens"),
    ("dropout bpe-dropout sampling alpha", "train-bpe: tokenizer.subword_regularization of a recipe samples in "
     "training"),
    ("normalization-rule-name nfkc lower max-sentence-length",
     "train-bpe: give --recipe RECIPE, with tokenizer.normalisation, lowercase and corpus.cleaning.max_length"),
    ("type algorithm", "--model-type bpe|unigram|word|char"),
    ("out-dir output-dir save-dir save-path save-model model-save-path exp log-dir output", "--run-dir FOLDER",
     "-o FILE"),
    ("model-name", *_MODEL),
    ("model-prefix model-name out output-file codes write-vocabulary dir folder", "-o FILE"),
    ("config", "serve: models are arguments: mtkit serve MODEL..."),
    ("config conf c recipe yaml cfg", *(f"{each}: RECIPE is an argument: mtkit {each} RECIPE" for each in _STAGES)),
    ("resume-from restore-file train-from load-checkpoint continue reload", *_RESUMES),
    ("overwrite force restart reset no-reload", "--fresh"),
    ("gpu gpus cuda use-gpu use-cuda gpu-id gpuid", "--device cuda"),
    ("cpu no-cuda use-cpu", "--device cpu"),
    ("fp16 half bf16 amp", "--compute-type bf16"),
    ("int8 quantize quantization load-in-8bit", "compress: give --to int8",
     "import: give --to int8", "export: mtkit compress MODEL --to int8, or quantisation of the other program",
     "--compute-type int8"),
    ("fp32 float", "--compute-type float32"),
    ("precision dtype compute-dtype", "--compute-type float32|bf16|int8"),
    ("batch-size batch max-batch max-tokens mini-batch mini-batch-words maxi-batch max-batch-size max-sentences "
     "batch-type batch-sentences buffer-size bucket-width shard-size", "--batch-tokens N", *_BATCH_KEYS),
    ("num-threads cpu-threads intra-threads omp-threads nthreads", "--threads N", "--workers N"),
    ("num-workers processes jobs j inter-threads num-proc parallel replicas", "--workers N", "--parallel N",
     "--jobs N"),
    ("seed seeds", "study: seeds is a key of the STUDY file"),
    ("lang language languages l", "--lang CODE", "translate: the model states its languages; --tag of several"),
    ("source-lang src-language source-language s", "--src-lang CODE", "--tag TEXT"),
    ("target-lang tgt-lang tgt-language target-language", "--tgt-lang CODE", "--tag TEXT"),
    ("load-only", "serve: the models that are given state the languages"),
    ("api-keys api-key api-token token auth auth-token", "--keys FILE"),
    ("char-limit", "--max-characters N"),
    ("req-limit rate-limit", "--max-requests N"),
    ("listen bind address", "--host ADDRESS"),
    ("verbose v verbosity log-level", "--log requests", "translate: progress is on stderr; --jsonl has details",
     "--debug"),
    ("silent no-progress quiet-translation", "--quiet"),
    ("target format to-format", "--to FORMAT"),
    ("alignment alignments-file print-alignment report-align", "--alignments FILE"),
    ("scores print-score with-score word-scores with-scores print-scores score log-prob", "--jsonl"),
    ("lexical-constraints force-words glossary-file terms dictionary", "--glossary FILE"),
    ("prefix-file target-prefix-file", "--target-prefix FILE"),
)  # fmt: skip


def option_answer(option: str, command: str, options: Container[str], *, similar: bool = False) -> str | None:
    """The answer of a command to an option that it lacks, such as "give --beam-size 1"; None if nothing is known.

    Args:
        option: as typed, such as --greedy.
        command: its name.
        options: those that it has.
        similar: whether words count whose parts the option has, such as log-file for --log-file-name.
    """
    word = option.lstrip("-").replace("_", "-").lower()
    main = main_parts(word)
    rows = [row for row in _TABLE if word in row[0].split()]
    rows += [row for row in _TABLE if main and any(main_parts(each) == main for each in row[0].split())]
    if similar:
        rows += [
            row for row in _TABLE if any(len(each) > 3 and main > main_parts(each) > set() for each in row[0].split())
        ]
    for _, *answers in rows:
        for answer in answers:
            name, _, text = answer.partition(": ")
            if answer.startswith("-") and answer.split()[0] in options:
                return f"give {answer}"
            if name == command:
                return text
    return None


@cache
def main_parts(word: str) -> frozenset[str]:
    """The parts of a word of several letters without those that change nothing, as gpu of use-gpus and ngpus."""
    return word_parts(word.removeprefix("n") if word == "ngpus" else word) - _NOISE if len(word) > 1 else frozenset()


def derived_answer(option: str, command: Any) -> str | None:
    """The answer to an option that is a value of another one, an argument, or another word for the key of an option.

    Args:
        option: as typed, such as --onnx.
        command: of typer.
    """
    parts = main_parts(option.lstrip("-"))
    if not parts:
        return None
    named = [each for each in command.params if each.param_type_name == "option"]
    for parameter in named:
        members = unwrap_hint(parameter.type_descriptor.annotation).members
        choices = [str(word) for each in members if get_origin(each) is Literal for word in get_args(each)]
        if found := [word for word in choices if main_parts(word) == parts or word == option.lstrip("-")]:
            return f"give {parameter.opts[0]} {found[0]}"
    for parameter in command.params:
        words = re.findall(r"[A-Z]+", parameter.metavar or "") if parameter.param_type_name == "argument" else []
        if found := [word for word in words if main_parts(word) == parts]:
            return f"{found[0]} is an argument: mtkit {command.name} {parameter.metavar}"
    names = [name for parameter in named for name in parameter.opts if len(name) > 2 and name != "--help"]
    keys = keys_of_option(option, Recipe, exact=True)
    same = [name for name in names if keys and set(keys) & {*keys_of_option(name, Recipe, exact=True)}]
    same = same or [name for name in names if main_parts(name[2:]) == parts]
    return f"give {same[0]}" if same else None


def answer_of_section(option: str, command: str) -> str:
    """The answer to an option that no key answers, such as --use-tpu; empty if there is none."""
    section = next((each for each, name in _OF_SECTIONS.items() if name == command), "")
    path = f"{section}.{option.lstrip('-').replace('-', '_')}"
    return other_answer(path, Recipe, of_training=command in (*_STAGES, "finetune", "train-bpe"))


_OF_SECTIONS = {"search": "translate", "evaluation": "evaluate", "tokenizer": "train-bpe"}  # commands by section


def option_for_key(section: str, word: str, names: bool | None = None) -> str:
    """The answer to a word in a section of a recipe that is an option, such as "mtkit translate: give --glossary".

    Args:
        section: path of the mapping that the word stands in; empty: the whole recipe.
        word: the key; a single letter has too many meanings.
        names: True: the word is to be the name of an option, or a word for one of the section's own command; False:
            of that command alone; None: a similar word of any command counts too.

    Returns:
        Empty if there is none.
    """
    from mtkit.cli.app import build_command

    word, own = word.replace("_", "-").lower(), [_OF_SECTIONS[section]] if section in _OF_SECTIONS else []
    for name in dict.fromkeys((*own, *(() if names is False else ("run", "translate", "compress")))):
        options = {each for parameter in build_command(name).params for each in parameter.opts if len(word) > 1}
        answer = f"give --{word}" if f"--{word}" in options else None
        in_table = any(word in words.split() for words, *_ in _TABLE)
        if answer is None and (names is None or (name in own and in_table)):
            answer = option_answer(f"--{word}", name, options)
        if answer and has_path(Recipe, key := f"{section}.{answer.split()[1].lstrip('-').replace('-', '_')}"):
            return f"did you mean {key}?"
        if answer:
            return f"on the command line of mtkit {name}: {answer}"
    return ""
