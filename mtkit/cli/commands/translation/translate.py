"""`mtkit translate`: translate raw text, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.cli.commands.translation.options import (
    Address,
    Alignments,
    Attributes,
    BeamSize,
    Constraints,
    Encoding,
    EngineOption,
    Fields,
    Flags,
    FlushEvery,
    GlossaryFiles,
    HelpSearch,
    Jsonl,
    JsonlInput,
    LanguageModel,
    LanguageModelModeOption,
    LanguageModelWeight,
    LengthPenalty,
    MaxLength,
    NBest,
    NBestFormat,
    OutputFile,
    OutputOptions,
    Quiet,
    Restore,
    Resume,
    Sample,
    SearchOptions,
    Seed,
    Settings,
    ShardOption,
    SourceFile,
    SourceOptions,
    SplitSentences,
    TargetPrefix,
    language_model_options,
    ray_cluster,
)
from mtkit.cli.options import (
    Adapters,
    BatchTokens,
    ComputeTypeOption,
    Device,
    Ensemble,
    Model,
    ModelSrcLang,
    ModelTgtLang,
    NoRewrite,
    Prefix,
    Tag,
    Threads,
    Workers,
    forbid_repeated,
    parse_adapters,
    parse_prefix,
)
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.documents.translate import DocumentReport
    from mtkit.io.shards import Shard
    from mtkit.text.source_prefix import SourcePrefix
    from mtkit.translate.load import TranslatorSpec
    from mtkit.translate.output import FlagSummary
    from mtkit.translate.translation import Translation
    from mtkit.translate.workers import Cluster, LineTranslator


def translate(
    model: Model,
    file: SourceFile = Path("-"),
    output: OutputFile = None,
    beam_size: BeamSize = None,
    n_best: NBest = None,
    n_best_format: NBestFormat = None,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    sample: Sample = None,
    seed: Seed = None,
    settings: Settings = None,
    help_search: HelpSearch = False,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    target_prefix: TargetPrefix = None,
    constraints: Constraints = None,
    split_sentences: SplitSentences = None,
    glossary: GlossaryFiles = None,
    field: Fields = None,
    encoding: Encoding = None,
    attributes: Attributes = False,
    restore: Restore = None,
    jsonl_input: JsonlInput = False,
    jsonl: Jsonl = False,
    alignments: Alignments = None,
    flags: Flags = None,
    flush_every: FlushEvery = None,
    resume: Resume = False,
    quiet: Quiet = False,
    ensemble: Ensemble = None,
    adapter: Adapters = None,
    lm: LanguageModel = None,
    lm_weight: LanguageModelWeight = None,
    lm_mode: LanguageModelModeOption = None,
    batch_tokens: BatchTokens = None,
    compute_type: ComputeTypeOption = "auto",
    no_rewrite: NoRewrite = False,
    device: Device = None,
    threads: Threads = None,
    workers: Workers = None,
    engine: EngineOption = "local",
    address: Address = None,
    shard: ShardOption = None,
) -> None:
    """Translate text, line by line, or a document.

    Writes one line for each line, in order. At a terminal it prompts for lines, and /best and /flags ask for other
    translations and for what was noticed in the last one. A line longer than any training source is translated in
    parts, and one of several sentences by its sentences if the model has hardly seen such lines. With -o FILE, stderr
    shows the lines done, the rate and the time left: at a terminal in one line, otherwise every 30 seconds. A line of
    more than 65,536 characters also reports its own progress. At the end one line on stderr says in how many lines
    something was noticed, such as a loop, or a number of the source that is missing (docs/translation.md).

    A FILE whose name ends as that of a document, such as .docx, .html or .po, is one: its text is translated by
    sentences, and nothing else changes (docs/documents.md). Other files are plain text, or refused by their names.
    """
    from mtkit.cli.input import is_interactive
    from mtkit.cli.printing import print_notes, print_oom_note, print_translation_progress
    from mtkit.documents.format import is_document
    from mtkit.documents.pair_lines import text_files
    from mtkit.native.library import native
    from mtkit.text.corpora import named_corpus
    from mtkit.translate.glossary import read_glossary
    from mtkit.translate.load import TranslatorSpec
    from mtkit.translate.output import FlagSummary
    from mtkit.translate.translation import TranslationOptions
    from mtkit.translate.workers import auto_num_workers

    def notify(*notes: str | None) -> None:
        print_notes([] if quiet else [note for note in notes if note is not None])

    if named_corpus(file) is not None:
        file = text_files(file, notify)[0]
    source = SourceOptions(
        file=file,
        fields=field or [],
        encoding=encoding,
        attributes=attributes,
        jsonl_input=jsonl_input,
        constraints=constraints,
        target_prefix=target_prefix,
        quiet=quiet,
    )
    search = SearchOptions(
        command="translate",
        beam_size=beam_size,
        n_best=n_best,
        length_penalty=length_penalty,
        max_length=max_length,
        sample=sample,
        seed=seed,
        settings=settings,
    )
    writing = OutputOptions(
        file=output,
        jsonl=jsonl or jsonl_input,
        n_best=None if n_best is None else n_best_format or "mtkit",
        alignments=alignments,
        flags=flags,
        resume=resume,
        quiet=quiet,
    )
    if n_best_format is not None and (n_best is None or writing.jsonl):
        raise UsageError("translate: --n-best-format is of the lines of --n-best N; give that, without --jsonl")
    writing.check([file] if constraints is None else [file, constraints])
    before = parse_prefix(tag, prefix, src_lang, tgt_lang)
    document_output = None
    if is_document(file):
        of_lines = {
            "--jsonl": jsonl,
            "--jsonl-input": jsonl_input,
            "--n-best": n_best,
            "--alignments": alignments,
            "--flags": flags,
            "--resume": resume,
            "--constraints": constraints,
            "--target-prefix": target_prefix,
            "--shard": shard,
        }
        document_output = _output_of_document(file, output, [name for name, value in of_lines.items() if value])
    else:
        _check_text_options(source, model, before)
    adapters = parse_adapters("translate", adapter or [])
    whole_adapter = adapters.pop("", None)
    if adapters and not jsonl_input:
        raise UsageError(
            'translate: --adapter NAME=FOLDER is of lines with "adapter": "NAME"; add --jsonl-input, or give one '
            "FOLDER for all lines"
        )
    forbid_repeated("translate", [model, *(ensemble or [])])
    if threads is not None and workers is not None and min(threads, workers) > 1 and device in (None, "cpu"):
        raise UsageError(
            f"translate: --workers {workers} are processes of one thread each; omit --threads {threads}, or --workers "
            "for one process"
        )
    cluster = ray_cluster("translate", engine, address, threads=threads, workers=workers)
    flush_every = 1 if is_interactive(file) else flush_every
    translator = TranslatorSpec(
        models=[model, *(ensemble or [])],
        search_overrides=search.overrides(),
        compute_type=compute_type,
        device=device,
        threads=threads,
        rewrite=not no_rewrite,
        language_model=language_model_options(lm, lm_weight, lm_mode),
        adapter=whole_adapter,
        options=TranslationOptions(
            batch_tokens=batch_tokens,
            flush_every=flush_every,
            split_sentences=split_sentences,
            with_scores=writing.form != "text" or alignments is not None,
            report_progress=None if quiet else print_translation_progress,
            report_oom=None if quiet else print_oom_note,
            source_prefix=before,
            glossary=None if not glossary else read_glossary(glossary, *_languages(model, before)),
            restore=restore,
        ),
    )
    if alignments is not None:
        translator.require_attention()
    n_best_note = translator.unwritten_n_best() if writing.form == "text" else None
    if n_best_note is not None:
        translator = replace(translator, search_overrides=[*translator.search_overrides, "n_best=1"])
    slow = None if no_rewrite or native().shortcoming is None else f"slower than it could be: {native().shortcoming}"
    notify(n_best_note, slow)
    num_workers = workers or auto_num_workers(file, device, threads=threads, flush_every=flush_every)
    summary = FlagSummary()
    if document_output is not None:
        report = _translate_document(translator, source, document_output, summary, num_workers, cluster)
        notify(report.sentence())
        flagged = flag_note(report)
    else:
        if shard is not None and (output is None or str(file) == "-"):
            raise UsageError("translate: --shard: counts the lines of FILE and writes -o FILE; name both")
        _translate_lines(
            translator,
            adapters,
            source,
            writing,
            summary=summary,
            num_workers=num_workers,
            cluster=cluster,
            shard=shard,
        )
        flagged = summary.sentence()
        if flagged is not None and flags is None:
            flagged += "; --flags FILE lists them"
    notify(summary.terms(), flagged)


def _output_of_document(file: Path, output: Path | None, of_lines: Sequence[str]) -> Path:
    """The output of a document; UsageError without -o, or with an option for lines."""
    remedy = f"to translate it line by line, give - and < {file}"
    if output is None:
        raise UsageError(f"translate: {file} is translated as a document, which needs -o FILE; {remedy}")
    if of_lines:
        raise UsageError(f"translate: {of_lines[0]} is of lines, but {file} is translated as a document; {remedy}")
    return output


def _check_text_options(source: SourceOptions, model: Path, prefix: SourcePrefix) -> None:
    """Refuse options of documents, and a file that is no plain text."""
    from mtkit.documents.format import require_plain_text

    if source.fields:
        raise UsageError(
            f"translate: --field names columns or keys of a document, but {source.file} is a text; omit it"
        )
    if source.attributes:
        raise UsageError(f"translate: --attributes is of HTML, EPUB and Markdown, but {source.file} is a text; omit it")
    if source.encoding is not None:
        remedy = f"convert it: iconv -f {source.encoding} -t utf-8"
        raise UsageError(f"translate: --encoding is of documents, but {source.file} is a text; {remedy}")
    if not source.jsonl_input:
        require_plain_text(source.file, lambda: _languages(model, prefix))


def _languages(model: Path, prefix: SourcePrefix) -> tuple[str, str]:
    """Source and target language; errors as `find_model`, `read_metadata` and `ModelMetadata.direction`."""
    from mtkit.model_folder.folder import find_model, read_metadata

    return read_metadata(find_model(model)).direction(prefix)


def _translate_document(
    translator: TranslatorSpec,
    source: SourceOptions,
    output: Path,
    summary: FlagSummary,
    num_workers: int,
    cluster: Cluster | None,
) -> DocumentReport:
    """Translate a document sentence by sentence; the report counts flags, `summary` also terms."""
    from mtkit.cli.printing import print_notes
    from mtkit.documents.format import format_of
    from mtkit.documents.translate import translate_document
    from mtkit.translate.workers import translator_pool

    src_lang, tgt_lang = _languages(translator.models[0], translator.options.source_prefix)
    form = format_of(
        source.file,
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        fields=source.fields,
        encoding=source.encoding,
        attributes=source.attributes,
    )
    options = replace(translator.options, with_scores=True, split_sentences=True)
    with translator_pool(replace(translator, options=options).load, num_workers, cluster=cluster) as translate:

        def counted(lines: Iterable[str]) -> Iterator[Translation]:
            for translation in translate(lines):
                summary.add(translation)
                yield translation

        def notify(note: str) -> None:
            print_notes([] if source.quiet else [note])

        return translate_document(source.file, output, form, counted, notify)


def flag_note(report: DocumentReport) -> str | None:
    """One line, such as `2 of 40 texts are flagged: 2 ran into a loop (first: a.html:7)`; None without flags."""
    from mtkit.translate.output import flag_sentence

    groups = {
        flag: (count, f"first: {report.first_flagged[flag]}" if count > 1 else report.first_flagged[flag])
        for flag, count in report.flags.items()
    }
    return flag_sentence("text", report.flagged, report.units, groups)


def _translate_lines(
    translator: TranslatorSpec,
    adapters: Mapping[str, Path],
    source: SourceOptions,
    writing: OutputOptions,
    *,
    summary: FlagSummary,
    num_workers: int,
    cluster: Cluster | None,
    shard: Shard | None,
) -> None:
    """Translate a text line by line, or a shard of it; at a terminal it also answers questions."""
    from mtkit.cli.input import Dialogue, is_interactive
    from mtkit.cli.printing import print_notes
    from mtkit.io.files import hash_file, hash_files
    from mtkit.text.lines import count_lines
    from mtkit.translate.load import AdaptedTranslators
    from mtkit.translate.output import translate_to_file

    lines, dialogue = source.lines(), Dialogue()
    load: Callable[[], LineTranslator] = translator.load
    if adapters:
        load = partial(AdaptedTranslators, translator, adapters)
    if is_interactive(source.file) and not source.jsonl_input:
        load, lines = dialogue.loader(translator.load), dialogue.lines(lines, say_how=not source.quiet)
    header = {}
    if writing.files:
        named = {name: hash_files(folder) for name, folder in adapters.items()}
        header = {**translator.settings(), "adapters": named, "form": writing.form}
    places = list(writing.destinations())
    with writing.reports(source.file) as reports:

        def write(files: Sequence[Path | None], start: int = 0, end: int | None = None) -> None:
            translate_to_file(
                load,
                islice(lines, start, end),
                [(file, form) for file, (_, form) in zip(files, places, strict=True)],
                header=header,
                resume=writing.resume,
                first_line=start + 1,
                reports=[summary.add, dialogue.add, *reports],
                num_workers=num_workers,
                flush_every=translator.options.flush_every,
                cluster=cluster,
            )

        if shard is None:
            write([file for file, _ in places])
            return
        given = [path for path in (source.file, source.constraints) if path is not None]
        inputs = {**header, "target_prefix": source.target_prefix, "text": [hash_file(path) for path in given]}
        bounds = shard.bounds(count_lines(source.file))
        outputs = [file for file, _ in places if file is not None]
        if not shard.make(outputs, inputs, lambda files: write(files, *bounds)):
            print_notes([f"{shard.of(outputs[0])}: complete already"])
