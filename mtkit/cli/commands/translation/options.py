"""Options of `mtkit translate`: source lines, documents, search, language model, and output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.io.shards import Shard
    from mtkit.translate.lines import Line
    from mtkit.translate.output import Destination
    from mtkit.translate.ray_pool import RayCluster
    from mtkit.translate.translation import LanguageModelOptions, Translation


SourceFile = Annotated[Path, typer.Argument(metavar="FILE|-", help="Source text; - is stdin.")]
JsonlInput = Annotated[
    bool,
    typer.Option(
        "--jsonl-input",
        help='Read a JSON object per line: "text", perhaps "prefix", "include", "exclude" and "adapter". Other fields '
        "are copied to the output, which is --jsonl.",
    ),
]
Constraints = Annotated[
    Path | None,
    typer.Option(
        "--constraints", metavar="FILE", help="JSON lines with prefix, include and exclude of each source line."
    ),
]
SplitSentences = Annotated[
    bool | None,
    typer.Option(
        "--split-sentences/--no-split-sentences",
        help="Translate every sentence of a line by itself; a line stays a line. Default: in models of single "
        "sentences, lines without constraints and with one translation each.",
    ),
]
GlossaryFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--glossary",
        metavar="FILE",
        help="Terms and their translations: .csv or .tsv (term, forms separated by |), .tbx, or .txt with terms that "
        "stay as they are (repeatable).",
    ),
]
Restore = Annotated[
    bool | None,
    typer.Option(
        "--restore/--no-restore",
        help="Put URLs, numbers, placeholders and names that a translation lacks in their places. Default: for models "
        "with a normaliser.",
    ),
]
TargetPrefix = Annotated[
    str | None, typer.Option("--target-prefix", metavar="TEXT", help="Begin every translation with TEXT.")
]


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options of a command line for the text to translate."""

    file: Path
    fields: Sequence[str] = ()
    encoding: str | None = None
    attributes: bool = False
    jsonl_input: bool = False
    constraints: Path | None = None
    target_prefix: str | None = None
    quiet: bool = False

    def lines(self) -> Iterator[Line]:
        """The lines to translate.

        Raises:
            UsageError: options contradict each other.
            DataError, MissingInputError, ReadWriteError: as `read_lines`, `parse_json_lines` and `with_constraints`.
        """
        from mtkit.cli.input import read_input_lines
        from mtkit.cli.printing import print_notes
        from mtkit.translate.lines import json_note, parse_json_lines, with_constraints, with_prefix

        if self.jsonl_input and self.constraints is not None:
            raise UsageError(
                "translate: with --jsonl-input, prefix, include and exclude are fields of each line; omit --constraints"
            )
        if self.target_prefix and not self.target_prefix.strip():
            raise UsageError("translate: --target-prefix: blank; omit it")
        name = "stdin" if str(self.file) == "-" else str(self.file)
        texts = read_input_lines(self.file)
        if not self.jsonl_input and not self.quiet:
            texts = json_note(texts, name, report=lambda note: print_notes([note]))
        lines: Iterator[Line] = texts
        if self.jsonl_input:
            lines = parse_json_lines(texts, name)
        elif self.constraints is not None:
            lines = with_constraints(texts, self.constraints)
        return with_prefix(lines, self.target_prefix) if self.target_prefix else lines


Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field", metavar="NAME", help="Of CSV, TSV and JSON translate only this column or key (repeatable)."
    ),
]

Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME", help="Encoding of a document, such as windows-1252. Default: as it declares."
    ),
]

Attributes = Annotated[
    bool,
    typer.Option("--attributes", help="Of HTML, EPUB and Markdown translate title, alt and the like too."),
]

BeamSize = Annotated[int | None, typer.Option("--beam-size", min=1, help="Beam size; 1 is greedy search.")]
NBest = Annotated[
    int | None,
    typer.Option("--n-best", min=1, metavar="N", help="Write the N best translations: LINE ||| TRANSLATION ||| SCORE."),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        min=0,
        metavar="ALPHA",
        help="Rank by log-probability / length^ALPHA; a larger ALPHA favours longer translations.",
    ),
]
MaxLength = Annotated[
    int | None, typer.Option("--max-length", min=1, metavar="N", help="At most N tokens in a translation.")
]
Sample = Annotated[
    float | None,
    typer.Option(
        "--sample",
        min=0.001,
        metavar="TEMPERATURE",
        help="Sample translations; 1 is the model's own distribution.",
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="With --sample: random seed (default: 1).")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="search.KEY=VALUE", help="Override a search setting (repeatable); --help-search lists all."
    ),
]


def _print_search_keys(requested: bool) -> None:
    if not requested:
        return
    from mtkit.cli.printing import print_lines
    from mtkit.recipe.reference import as_text, key_groups, select
    from mtkit.recipe.sections import Recipe

    print_lines(as_text(select(key_groups(Recipe), "search")))
    raise typer.Exit


HelpSearch = Annotated[
    bool,
    typer.Option(
        "--help-search", callback=_print_search_keys, is_eager=True, help="List the keys that --set takes, and exit."
    ),
]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of a command line for the search; None: not given."""

    command: str
    beam_size: int | None = None
    n_best: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None
    sample: float | None = None
    seed: int | None = None
    settings: Sequence[str] | None = None

    def overrides(self) -> list[str]:
        """The overrides, `search.KEY=VALUE` each.

        Raises:
            UsageError: an option needs another one, or --set sets the same key as an option.
        """
        if self.seed is not None and self.sample is None:
            raise UsageError(f"{self.command}: --seed is the seed of sampling; add --sample TEMPERATURE, or omit it")
        # by override, the option that states it; None: a default, which --set may replace
        from_options: dict[str, str | None] = {}
        if self.beam_size is not None:
            from_options[f"search.beam_size={self.beam_size}"] = "--beam-size"
        if self.sample is not None:
            from_options["search.method.kind=sampling"] = "--sample"
            from_options[f"search.method.temperature={self.sample}"] = "--sample"
            from_options[f"search.method.num_samples={self.n_best or 1}"] = None
            seed_option = None if self.seed is None else "--seed"
            from_options[f"search.method.seed={1 if self.seed is None else self.seed}"] = seed_option
        if self.n_best is not None or self.sample is not None:
            from_options[f"search.n_best={self.n_best or 1}"] = None if self.n_best is None else "--n-best"
        if self.length_penalty is not None:
            from_options[f"search.length_penalty={self.length_penalty}"] = "--length-penalty"
        if self.max_length is not None:
            for override in ("factor=0", f"offset={self.max_length}", "max=null"):
                from_options[f"search.max_length.{override}"] = "--max-length"
        settings = [text if text.startswith("search.") else f"search.{text}" for text in self.settings or ()]
        for text in settings:
            for override, option in from_options.items():
                if option is not None and _overlap(text, override):
                    raise UsageError(f"{self.command}: --set {text} and {option} set the same key; give one of them")
        defaults = {
            override
            for override, option in from_options.items()
            if option is None and any(_overlap(text, override) for text in settings)
        }
        return [*(override for override in from_options if override not in defaults), *settings]


def _overlap(one: str, other: str) -> bool:
    """Return whether two overrides set the same key, or one a key and the other a key below it."""
    first, second = (f"{text.partition('=')[0]}." for text in (one, other))
    return first.startswith(second) or second.startswith(first)


LanguageModel = Annotated[
    Path | None, typer.Option("--lm", metavar="MODEL", help="Language model that ranks translations too.")
]
LanguageModelWeight = Annotated[
    float | None,
    typer.Option("--lm-weight", min=0, help="Weight of the language model's log-probability (default: 0.2)."),
]
LanguageModelMode = Literal["fusion", "rerank"]
LanguageModelModeOption = Annotated[
    LanguageModelMode | None,
    typer.Option("--lm-mode", help="fusion (default): at every step of the search; rerank: complete translations."),
]


def language_model_options(
    model: Path | None, weight: float | None, mode: LanguageModelMode | None
) -> LanguageModelOptions | None:
    """The options as one value; None without a language model.

    Raises:
        UsageError: weight or mode without a language model.
    """
    from mtkit.translate.translation import LANGUAGE_MODEL_WEIGHT, LanguageModelOptions

    if model is None:
        for name, value in (("weight", weight), ("mode", mode)):
            if value is not None:
                raise UsageError(f"translate: --lm-{name} is for a language model; add --lm MODEL, or omit it")
        return None
    weight = LANGUAGE_MODEL_WEIGHT if weight is None else weight
    return LanguageModelOptions(model=model, weight=weight, mode=mode or "fusion")


OutputFile = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout.")
]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Write a JSON object per line: scores, tokens, alignment.")]
Alignments = Annotated[
    Path | None,
    typer.Option(
        "--alignments",
        metavar="FILE",
        help="Write the word alignment of each line's best translation to FILE, one line per line: 0-0 1-2 (Pharaoh).",
    ),
]
Flags = Annotated[
    Path | None,
    typer.Option(
        "--flags",
        metavar="FILE",
        help="Write a JSON object to FILE for each line in which something was noticed, such as a loop.",
    ),
]
FlushEvery = Annotated[
    int | None, typer.Option("--flush-every", min=1, metavar="N", help="Write translations after every N lines.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="With -o: resume FILE.part, of the same text, model and options.")
]

EngineOption = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="local, or ray: the machines of a Ray cluster (docs/distributed.md)."),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="Of --engine ray (default: a cluster on this machine alone)."),
]


def _shard(text: str) -> Shard:
    from mtkit.io.shards import Shard

    return Shard.parse(text)


ShardOption = Annotated[
    Any,
    typer.Option("--shard", metavar="I/N", parser=_shard, help="Only part I of N of the lines (docs/distributed.md)."),
]


def ray_cluster(
    command: str, engine: str, address: str | None, *, threads: int | None, workers: int | None
) -> RayCluster | None:
    """The cluster that translates; None: this process and its workers.

    Raises:
        UsageError: an option has no effect.
    """
    from mtkit.translate.ray_pool import RayCluster

    if engine != "ray" and address is not None:
        raise UsageError(f"{command}: --address is that of a Ray cluster; add --engine ray, or omit it")
    if engine == "ray" and threads is not None:
        raise UsageError(f"{command}: --threads: a worker of a Ray cluster has one thread; omit it, or give --workers")
    return RayCluster(address, workers) if engine == "ray" else None


Quiet = Annotated[bool, typer.Option("--quiet", help="Write nothing but errors to stderr: no progress, no notes.")]

NBestForm = Literal["mtkit", "moses"]
NBestFormat = Annotated[
    NBestForm | None,
    typer.Option(
        "--n-best-format", help="mtkit (default), or moses: LINE from 0 ||| TRANSLATION ||| LogProb= X ||| SCORE."
    ),
]


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The options of a command line for the output."""

    file: Path | None = None
    jsonl: bool = False
    n_best: NBestForm | None = None
    alignments: Path | None = None
    flags: Path | None = None
    resume: bool = False
    quiet: bool = False

    @property
    def form(self) -> str:
        """Form of the output: text, n-best or jsonl, whose lines contain the n best translations."""
        return "jsonl" if self.jsonl else "text" if self.n_best is None else f"n-best of {self.n_best}"

    @property
    def files(self) -> dict[str, Path]:
        """The files that are written, by option."""
        named = {"-o": self.file, "--alignments": self.alignments, "--flags": self.flags}
        return {option: path for option, path in named.items() if path is not None}

    def check(self, inputs: Iterable[Path]) -> None:
        """Refuse options that would lose text.

        Raises:
            UsageError: --resume without a file, an output that is an input, or two outputs that are one file.
        """
        from mtkit.cli.options import forbid_overwriting_input
        from mtkit.io.part_file import part_paths
        from mtkit.text.lines import COMPRESSION_SUFFIXES

        if self.resume and self.file is None:
            raise UsageError("translate: --resume continues FILE.part and needs -o FILE")
        for option, path in self.files.items():
            if str(path) == "-":
                raise UsageError(f"translate: {option} -: name a file; without -o the translations go to stdout")
            if path.suffix in COMPRESSION_SUFFIXES:
                raise UsageError(f"translate: {option} {path}: is written as plain text; omit {path.suffix}")
        inputs = [path for path in inputs if str(path) != "-"]
        used: dict[Path, str] = {}
        for option, path in self.files.items():
            for each in [path.resolve(), *part_paths(path)]:
                if each in used and not path.is_char_device():
                    raise UsageError(f"translate: {option} {path} and {used[each]} are one file; name another FILE")
                used[each] = f"{option} {path}"
            forbid_overwriting_input("translate", path, inputs, option=option)
            for source in inputs:
                if source.resolve() in part_paths(path):
                    raise UsageError(
                        f"translate: {source} is where unfinished lines of {option} {path} are kept; name another FILE"
                    )

    def destinations(self) -> Iterator[Destination]:
        """Places of translations, alignments and flags, the main output first."""
        from mtkit.translate import output

        texts = {
            "jsonl": output.as_json,
            "text": output.as_text,
            "n-best of mtkit": output.as_n_best,
            "n-best of moses": output.as_moses_n_best,
        }
        yield self.file, texts[self.form]
        if self.alignments is not None:
            yield self.alignments, output.as_alignment
        if self.flags is not None:
            yield self.flags, output.as_flag_record

    @contextmanager
    def reports(self, source: Path) -> Iterator[list[Callable[[Translation], None]]]:
        """Functions that report progress: one with -o FILE, none to stdout, to a device, or with --quiet.

        Args:
            source: file of the source lines, or - for stdin.
        """
        from mtkit.cli.printing import is_terminal, terminal
        from mtkit.text.lines import count_lines
        from mtkit.translate.output import TranslationProgress, is_stream

        if self.file is None or is_stream(self.file) or self.quiet:
            yield []
            return

        def count() -> int | None:
            return count_lines(source) if source.is_file() else None

        with TranslationProgress(terminal(), is_terminal=is_terminal(), count_lines=count) as progress:
            yield [progress.add]
