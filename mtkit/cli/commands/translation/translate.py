"""`mtkit translate`: translate raw text, line by line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from mtkit.cli.commands.translation.options import (
    Alignments,
    BeamSize,
    Constraints,
    Encoding,
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
    SourceFile,
    SourceOptions,
    SplitSentences,
    TargetPrefix,
    flag_note,
    language_model_options,
    model_languages,
    translate_file,
)
from mtkit.cli.options import (
    Adapters,
    BatchTokens,
    ComputeTypeOption,
    Device,
    Ensemble,
    Model,
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
    target_prefix: TargetPrefix = None,
    constraints: Constraints = None,
    split_sentences: SplitSentences = None,
    glossary: GlossaryFiles = None,
    field: Fields = None,
    encoding: Encoding = None,
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
) -> None:
    """Translate text, line by line, or a document.

    Writes one line for each line, in order. At a terminal it prompts for lines, and /best and /flags ask for other
    translations and for what was noticed in the last one. A line longer than any training source is translated in
    parts, and one of several sentences by its sentences if the model has hardly seen such lines. With -o FILE, stderr
    shows the lines done, the rate and the time left: at a terminal in one line, otherwise every 30 seconds. A line of
    more than 65,536 characters also reports its own progress. At the end one line on stderr says how many lines were
    split, ran into a loop, reached the maximum length, are far shorter than their source, have unknown characters, or
    lack a URL, number, placeholder or term of the source.

    A FILE whose name ends as that of a document, such as .docx, .html or .po, is one: its text is translated by
    sentences, and nothing else changes (docs/documents.md). Other files are plain text, or refused by their names.
    """
    from mtkit.cli.input import Dialogue, is_interactive
    from mtkit.cli.printing import print_notes, print_oom_note, print_translation_progress
    from mtkit.documents.format import is_document, require_plain_text
    from mtkit.inference.library import native
    from mtkit.io.files import hash_files
    from mtkit.translate.load import AdaptedTranslators, TranslatorSpec, model_glossary
    from mtkit.translate.output import FlagSummary, translate_to_file
    from mtkit.translate.translator import TranslationOptions
    from mtkit.translate.workers import LineTranslator, auto_num_workers

    source = SourceOptions(
        file=file, jsonl_input=jsonl_input, constraints=constraints, target_prefix=target_prefix, quiet=quiet
    )
    search = SearchOptions(
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
    if is_document(file):
        of_lines: dict[str, object] = {"--jsonl": jsonl, "--jsonl-input": jsonl_input, "--n-best": n_best}
        of_lines |= {"--alignments": alignments, "--flags": flags, "--resume": resume, "--constraints": constraints}
        of_lines["--target-prefix"] = target_prefix
        remedy = f"to translate it line by line, give - and < {file}"
        if output is None:
            raise UsageError(f"translate: {file} is translated as a document, which needs -o FILE; {remedy}")
        if names := [name for name, value in of_lines.items() if value]:
            raise UsageError(f"translate: {names[0]} is of lines, but {file} is translated as a document; {remedy}")
    else:
        if field:
            raise UsageError(f"translate: --field names columns or keys of a document, but {file} is a text; omit it")
        if encoding is not None:
            raise UsageError(
                f"translate: --encoding is of documents, but {file} is a text; convert it: iconv -f {encoding} -t utf-8"
            )
        if not jsonl_input:
            require_plain_text(file, lambda: model_languages(model))
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
            source_prefix=parse_prefix(tag, prefix),
            glossary=None if not glossary else model_glossary(model, glossary),
            restore=restore,
        ),
    )
    if alignments is not None:
        translator.require_attention()
    n_best_note = translator.unwritten_n_best() if writing.form == "text" else None
    if n_best_note is not None:
        translator = replace(translator, search_overrides=[*translator.search_overrides, "n_best=1"])
    slow = None if no_rewrite or native().shortcoming is None else f"slower than it could be: {native().shortcoming}"
    print_notes([] if quiet else [note for note in (n_best_note, slow) if note is not None])
    num_workers = workers or auto_num_workers(file, device, threads=threads, flush_every=flush_every)
    summary = FlagSummary()
    if is_document(file) and output is not None:
        report = translate_file(
            translator,
            file,
            output,
            fields=field or [],
            encoding=encoding,
            num_workers=num_workers,
            summary=summary,
            notify=lambda note: print_notes([] if quiet else [note]),
        )
        print_notes([] if quiet else [report.sentence()])
        flagged = flag_note(report)
    else:
        lines, dialogue = source.lines(), Dialogue()
        load: Callable[[], LineTranslator] = partial(AdaptedTranslators, translator, adapters)
        if not adapters:
            load = translator.load
        if is_interactive(file) and not jsonl_input:
            load, lines = dialogue.loader(translator.load), dialogue.lines(lines, say_how=not quiet)
        named = {"adapters": {name: hash_files(folder) for name, folder in adapters.items()}} if writing.files else {}
        with writing.reports(file) as reports:
            translate_to_file(
                load,
                lines,
                list(writing.destinations()),
                header={**translator.settings(), **named, "form": writing.form} if writing.files else {},
                resume=resume,
                reports=[summary.add, dialogue.add, *reports],
                num_workers=num_workers,
                flush_every=flush_every,
            )
        flagged = summary.sentence()
        if flagged is not None and flags is None:
            flagged += "; --flags FILE lists them"
    if (terms := summary.terms()) is not None and not quiet:
        print_notes([terms])
    if flagged is not None and not quiet:
        print_notes([flagged])
