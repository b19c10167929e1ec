"""`mtkit evaluate`: score translations against references, or translate and score the test sets of a run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtkit.cli.options import Format, JsonFile, forbid_overwriting_input, forbid_repeated
from mtkit.evaluation.config import DEFAULT_METRICS, METRIC_NAMES, ReportOptions
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.display import TableFormat
    from mtkit.evaluation.comparison import Comparison
    from mtkit.evaluation.config import MetricName
    from mtkit.evaluation.metrics import ExternalMetric

NAME = re.compile(r"[A-Za-z][\w.+-]*")  # of an external metric


ScoreFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="NAME=FILE",
        help="Another metric: a number for each line, from any program; repeat it for each HYP, in their order.",
    ),
]
ScoreCommand = Annotated[
    list[str] | None,
    typer.Option(
        "--score-command",
        metavar="NAME=CMD",
        help='Another metric: a command that prints a number for each line of "$HYP", given "$REF" and "$SRC" (files).',
    ),
]
LowerIsBetter = Annotated[
    list[str] | None,
    typer.Option(
        "--lower-is-better", metavar="NAME", help="A metric of --scores or --score-command that counts errors."
    ),
]
RESERVED = ("groups", "line_scores")  # fields beside the metrics in JSON


def evaluate(
    hyps: Annotated[
        list[Path] | None,
        typer.Argument(metavar="HYP", help="Translations, one file for each system; - is stdin. Or one run folder."),
    ] = None,
    ref: Annotated[
        list[Path] | None, typer.Option("--ref", metavar="REF", help="Reference translation (repeatable).")
    ] = None,
    src: Annotated[
        Path | None,
        typer.Option("--src", metavar="SRC", help="Source text; reports translations that are equal to it."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", "--run-dir", metavar="RUN_FOLDER", help="Translate and score the test sets of this run."),
    ] = None,
    json: JsonFile = None,
    form: Format = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            metavar="LIST",
            help=f"{', '.join(METRIC_NAMES)}, with commas (default: {','.join(DEFAULT_METRICS)}).",
        ),
    ] = None,
    intervals: Annotated[
        bool | None, typer.Option("--intervals/--no-intervals", help="95% intervals and paired tests by resampling.")
    ] = None,
    length_groups: Annotated[
        bool, typer.Option("--by-length", help="Also score by length of the source, or of the reference.")
    ] = False,
    docid: Annotated[
        Path | None, typer.Option("--docid", metavar="FILE", help="Also score by document; one name per line.")
    ] = None,
    moses: Annotated[bool, typer.Option("--moses", help="Also compute BLEU on lower-cased Moses tokens.")] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", "-lc", help="Ignore capitals (TER always does).")] = False,
    lang: Annotated[
        str | None,
        typer.Option("--lang", "--tgt-lang", metavar="CODE", help="Language of the references (default: by script)."),
    ] = None,
    tokenize: Annotated[
        SacrebleuTokenizer | None,
        typer.Option("--tokenize", help="sacreBLEU's tokenizer (auto: by language and script)."),
    ] = None,
    scores: ScoreFiles = None,
    score_command: ScoreCommand = None,
    lower_is_better: LowerIsBetter = None,
) -> None:
    """Score translations with BLEU, chrF and TER.

    Give either HYP... --ref REF, or a run folder. SacreBLEU signatures are printed below the scores. With several
    systems, each is compared with the first by paired bootstrap and paired randomisation. Of a run folder, the
    report.json has the scores of its recipe; other options change only what is printed, and FILE of --json.
    """
    from mtkit.cli.input import read_input_lines
    from mtkit.errors import UsageError

    names = None if metrics is None else metric_names("evaluate", ",".join(metrics))
    run_folders = [hyp for hyp in hyps or () if (hyp / "recipe.yaml").is_file()]
    if run is None and run_folders and hyps == run_folders[:1] and not ref:
        run, hyps = run_folders[0], None
    elif run_folders:
        raise UsageError(
            f"evaluate: {run_folders[0]} is a run folder; for all its test sets give it alone, for one of them the "
            f"translation {run_folders[0]}/hyps/TEST.txt"
        )
    if (run is None) != bool(hyps and ref) or (run is not None and (hyps or ref)):
        remedy = "" if run is not None or not ref else "; - as HYP reads stdin"
        if run is None and hyps and len(hyps) > 1:
            remedy = f"; if {hyps[-1]} is the reference: --ref {hyps[-1]}"
        raise UsageError(f"evaluate: give either HYP... --ref REF, or a run folder{remedy}")
    if run is not None and (scores or score_command):
        raise UsageError("evaluate: --scores and --score-command need HYP... --ref REF, such as RUN/hyps/TEST.txt")
    if run is not None and (src is not None or lang is not None):
        raise UsageError("evaluate: with --run the recipe names source and language; omit --src and --lang")
    if lang is not None:
        check_language(lang)
    inputs = [*(hyps or []), *(ref or []), src, docid]
    forbid_overwriting_input("evaluate", json, inputs)
    if inputs.count(Path("-")) > 1:
        raise UsageError("evaluate: - is stdin, which can be read once; write the other text to a file")
    options = ReportOptions(
        metrics=names,
        moses=moses,
        tokenize=tokenize,
        lowercase=lowercase,
        intervals=intervals is not False,
        by_length=length_groups,
        documents=None if docid is None else list(read_input_lines(docid)),
        documents_file="" if docid is None else str(docid),
    )
    if run is None:
        texts = read_systems("evaluate", hyps or [], ref or [], src)
        external = read_external("evaluate", texts, scores, score_command, lower_is_better)
        result = texts.compare(options, lang, external)
        content, reasons = result.as_dict(), list[str]()
        if json is not None or form == "json":
            for system, of_lines in result.line_scores().items():
                content[system]["line_scores"] = of_lines
        if len(texts.hyps) > 1:
            from mtkit.evaluation.reasons import reasons_of

            for each in reasons_of(result, texts.hyps, texts.refs, texts.src):
                reasons += each.summary()
        _print_results("system", [result], form, content, json, reasons)
        return

    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_results
    from mtkit.pipeline import stages

    if intervals is None and form is None and options == ReportOptions():
        with open_display() as display:
            report = stages.evaluate_run(run, display=display)
        print_results([], notes=report.lines, content=report.content, json_file=json)
    else:
        with open_display() as display:
            results = stages.compare_run(run, options, display=display)
        content = {"test": {name: scores for result in results for name, scores in result.as_dict().items()}}
        _print_results("test set", results, form, content, json)


def metric_names(command: str, text: str) -> list[MetricName]:
    """The metrics of --metrics, in the order of reports.

    Raises:
        UsageError: there is none, or one is unknown.
    """
    from mtkit.errors import UsageError

    names = text.lower().replace(",", " ").split()
    known = ", ".join(METRIC_NAMES)
    if unknown := [name for name in names if name not in METRIC_NAMES]:
        raise UsageError(f"{command}: --metrics: no such metric: {unknown[0]}; the metrics are {known}")
    if not names:
        raise UsageError(f"{command}: --metrics is empty; the metrics are {known}")
    return [name for name in METRIC_NAMES if name in names]


@dataclass(frozen=True)
class SystemTexts:
    """Translations of several systems by their names, references, and source."""

    hyps: dict[str, list[str]]
    refs: list[list[str]]
    src: list[str] | None

    def compare(self, options: ReportOptions, lang: str | None, external: Sequence[ExternalMetric]) -> Comparison:
        """Scores, tests and groups; errors as `comparison.compare`."""
        from mtkit.evaluation.comparison import compare, segment_groups
        from mtkit.evaluation.config import EvaluationConfig

        config = options.apply(EvaluationConfig())
        return compare(
            self.hyps,
            self.refs,
            config.metrics,
            tgt_lang=lang,
            tokenize=config.tokenize,
            lowercase=config.lowercase,
            src=self.src,
            intervals=options.intervals,
            groups=segment_groups(options, self.refs[0], self.src),
            external=external,
        )


def read_systems(command: str, hyps: Sequence[Path], ref: Sequence[Path], src: Path | None) -> SystemTexts:
    """Read the files of a comparison; of a document with both sides, references are the target.

    Errors as `read_texts` and `text_files`, and UsageError for a file that is given twice.
    """
    from mtkit.cli.input import read_input_lines
    from mtkit.cli.printing import print_notes
    from mtkit.documents.pair_lines import text_files
    from mtkit.evaluation.score import read_texts

    def notify(note: str) -> None:
        print_notes([note])

    ref = [text_files(each, notify)[-1] for each in ref]
    src = None if src is None else text_files(src, notify)[0]
    for files in (hyps, ref):
        forbid_repeated(command, files)
    texts = read_texts(hyps, ref, src, read_input_lines)
    source = None if src is None else texts[src]
    return SystemTexts({str(hyp): texts[hyp] for hyp in hyps}, [texts[path] for path in ref], source)


def read_external(
    command: str,
    texts: SystemTexts,
    files: Sequence[str] | None,
    commands: Sequence[str] | None,
    lower_is_better: Sequence[str] | None,
) -> list[ExternalMetric]:
    """The metrics of --scores and --score-command.

    Raises:
        UsageError: a value has another form, a name that is taken, or there is not one file for each system.
        DataError: there is not one finite number for each line, or a command fails.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    from mtkit.cli.input import read_input_lines
    from mtkit.errors import DataError, UsageError
    from mtkit.evaluation.metrics import ExternalMetric
    from mtkit.io.shell_command import run_on_texts

    def named(option: str, value: str, what: str) -> tuple[str, str]:
        name, _, rest = value.partition("=")
        if not NAME.fullmatch(name) or not rest:
            raise UsageError(f"{command}: {option} {value}: give NAME={what}, such as comet={what}")
        if name.lower() in (*METRIC_NAMES, *RESERVED):
            raise UsageError(f"{command}: {option} {value}: mtkit has {name} itself; give another name")
        return name, rest

    sources: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for name, path in (named("--scores", value, "FILE") for value in files or ()):
        sources.setdefault(name, []).append((path, [*read_input_lines(Path(path))]))
    for name, source in sources.items():
        if len(source) != len(texts.hyps):
            raise UsageError(
                f"{command}: --scores {name} is given {len(source)} times for {len(texts.hyps)} systems; "
                "give it once for each HYP, in their order"
            )
    for name, program in (named("--score-command", value, "CMD") for value in commands or ()):
        if name in sources:
            raise UsageError(f"{command}: --score-command {name} is given twice; give another name")
        source_text = {} if texts.src is None else {"SRC": texts.src}
        try:
            outputs = [
                run_on_texts(program, {"HYP": h, "REF": texts.refs[0], **source_text}) for h in texts.hyps.values()
            ]
        except ValueError as error:
            raise DataError(f"{command}: --score-command {name}: {error}") from error
        sources[name] = [(program, output) for output in outputs]
    if unknown := [name for name in lower_is_better or () if name not in sources]:
        raise UsageError(
            f"{command}: --lower-is-better {unknown[0]}: no metric of --scores or --score-command has this name"
        )
    metrics = []
    for name, of_systems in sources.items():
        numbers = {}
        for system, (path, lines) in zip(texts.hyps, of_systems, strict=True):
            if len(lines) != len(texts.refs[0]):
                raise DataError(f"{name}: {path}: {len(lines):,} numbers for {len(texts.refs[0]):,} lines of {system}")
            numbers[system] = [_number(path, *each) for each in enumerate(lines, start=1)]
        from_ = ",".join(dict.fromkeys(source for source, _ in of_systems))
        is_higher = name not in (lower_is_better or ())
        metrics.append(ExternalMetric(name, numbers, higher_is_better=is_higher, source=from_))
    return metrics


def _number(source: str, line: int, text: str) -> float:
    from mtkit.errors import DataError

    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not math.isfinite(number):
        raise DataError(f"{source}:{line}: {text[:80]!r} is no finite number; a file of scores has one number a line")
    return number


def check_language(lang: str) -> None:
    """Check --lang; a code that may be right, but that mtkit does not know, is reported on stderr.

    Raises:
        UsageError: no language has such a code.
    """
    from mtkit.cli.printing import print_notes
    from mtkit.errors import UsageError
    from mtkit.evaluation.tokenizer_choice import is_known_language
    from mtkit.text.language import CODE

    if not CODE.fullmatch(lang):
        raise UsageError(
            f"evaluate: --lang: {lang!r} is not a language code; give two or three letters, such as de, zh-CN or jpn"
        )
    if not is_known_language(lang):
        print_notes([f"--lang {lang}: mtkit does not know this language code, so the script of the references decides"])


def _print_results(
    label: str,
    results: Sequence[Comparison],
    form: TableFormat | None,
    content: dict[str, Any],
    json: Path | None,
    reasons: Sequence[str] = (),
) -> None:
    """Print the scores of systems on one test set with reasons, or of one system on each test set of a run."""
    from mtkit.cli.printing import print_notes, print_results
    from mtkit.evaluation.comparison import group_table, score_table, signature_lines

    first = results[0]
    scores = {name: each for result in results for name, each in result.scores.items()}
    tables = [score_table(scores, label=label, p_values=first.p_values, best=first.best())]
    for result in results:
        if result.groups:
            title = next(iter(result.scores)) if len(results) > 1 else None
            tables.append(group_table(result.groups, title=title))
    print_results(
        tables, form, notes=[*reasons, *signature_lines(scores), *first.tests], content=content, json_file=json
    )
    # notes of all systems once, others after the name of the system
    of_all = set.intersection(*(set(each.notes) for each in scores.values())) if len(scores) > 1 else set()
    lines = [note if note in of_all else f"{name}: {note}" for name, each in scores.items() for note in each.notes]
    print_notes(dict.fromkeys(lines))
