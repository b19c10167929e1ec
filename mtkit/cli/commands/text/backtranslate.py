"""`mtkit backtranslate`: training pairs from text in one language."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.commands.translation.options import (
    Address,
    BeamSize,
    EngineOption,
    Sample,
    SearchOptions,
    Seed,
    Settings,
    ShardOption,
    ray_cluster,
)
from mtkit.cli.options import (
    ComputeTypeOption,
    Device,
    ModelSrcLang,
    ModelTgtLang,
    Prefix,
    Tag,
    Threads,
    Workers,
    non_empty_path,
    parse_prefix,
)

if TYPE_CHECKING:
    from mtkit.pipeline.synthetic_text import AnyTeacher
    from mtkit.translate.teachers import ChatTeacher


def backtranslate(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] TEXT",
            help="Model folder or run folder (none with --teacher-command), and a text file, or FILE.tmx#SRC,TGT.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", parser=non_empty_path, help="Folder to write.")
    ],
    forward: Annotated[
        bool, typer.Option("--forward", help="TEXT is in the source language: forward translation, or distillation.")
    ] = False,
    noise: Annotated[bool, typer.Option("--noise", help="Drop, blank and move words of the sources.")] = False,
    round_trip: Annotated[
        Path | None,
        typer.Option("--round-trip", metavar="MODEL", help="Translate back, and keep the most similar pairs."),
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            "--keep", min=0.01, max=1.0, metavar="SHARE", help="Of --round-trip: share that is kept (default: 0.9)."
        ),
    ] = None,
    teacher_command: Annotated[
        str | None,
        typer.Option("--teacher-command", metavar="COMMAND", help="Shell command that translates stdin to stdout."),
    ] = None,
    teacher_url: Annotated[
        str | None,
        typer.Option("--teacher-url", metavar="URL", help="Server with OpenAI's interface, such as https://HOST/v1."),
    ] = None,
    teacher_model: Annotated[
        str | None, typer.Option("--teacher-model", metavar="NAME", help="Of --teacher-url: the model there.")
    ] = None,
    teacher_timeout: Annotated[
        float | None,
        typer.Option(
            "--teacher-timeout", min=0.1, metavar="SECONDS", help="For 4,096 lines of a command, or for one request."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Of --teacher-url: send without asking.")] = False,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    beam_size: BeamSize = None,
    sample: Sample = None,
    seed: Seed = None,
    settings: Settings = None,
    compute_type: ComputeTypeOption = "auto",
    device: Device = None,
    threads: Threads = None,
    workers: Workers = None,
    engine: EngineOption = "local",
    address: Address = None,
    shard: ShardOption = None,
) -> None:
    """Make training pairs from text in one language.

    By default TEXT is in the target language of the system to train, and MODEL translates it to the source language
    (back-translation). DIR receives source.txt and target.txt, and in rejected.jsonl the lines without a usable
    translation, with their reasons. An interrupted command continues when it is repeated; one that is done does
    nothing.

    The teacher may also be any program (--teacher-command), or a server with OpenAI's interface (--teacher-url, with
    the key in OPENAI_API_KEY): the number of its requests is said before the first one.
    """
    from mtkit.errors import UsageError
    from mtkit.io.files import require_regular_file

    teachers = [value for value in (teacher_command, teacher_url) if value is not None]
    if len(words) + len(teachers) != 2:
        raise UsageError(
            "backtranslate: give MODEL and TEXT; or TEXT alone, with one of --teacher-command and --teacher-url"
        )
    before = parse_prefix(tag, prefix, src_lang, tgt_lang)
    seed_of_search = None if noise and sample is None else seed
    search = SearchOptions(
        command="backtranslate", beam_size=beam_size, sample=sample, seed=seed_of_search, settings=settings
    )
    overrides = search.overrides()
    cluster = ray_cluster("backtranslate", engine, address, threads=threads, workers=workers)
    unused = {
        "--teacher-model": teacher_url is None and teacher_model is not None,
        "--yes": teacher_url is None and yes,
        "--teacher-timeout": not teachers and teacher_timeout is not None,
        "--tag or --prefix": bool(teachers) and (tag or prefix) is not None,
        "--src-lang and --tgt-lang": teacher_command is not None and (src_lang or tgt_lang) is not None,
        "--beam-size, --sample and --set": bool(teachers) and bool(overrides),
        "--keep": round_trip is None and keep is not None,
        "--engine": bool(teachers) and cluster is not None,
        "--noise": forward and noise,
        "--compute-type, --device, --threads and --workers": bool(teachers)
        and round_trip is None
        and (compute_type != "auto" or any(each is not None for each in (device, threads, workers))),
    }
    if wrong := [name for name, is_wrong in unused.items() if is_wrong]:
        raise UsageError(f"backtranslate: {wrong[0]}: has no effect here; omit it (mtkit backtranslate --help)")

    from mtkit.cli.printing import is_terminal, print_notes, print_results, terminal
    from mtkit.corpus.config import SOURCE, TARGET
    from mtkit.documents.pair_lines import text_files
    from mtkit.model_folder.folder import find_model, read_metadata
    from mtkit.pipeline.synthetic_text import SyntheticText, prefix_between
    from mtkit.text.lines import count_lines
    from mtkit.translate.load import TranslatorSpec
    from mtkit.translate.output import TranslationProgress
    from mtkit.translate.teachers import CommandTeacher
    from mtkit.translate.translation import TranslationOptions

    text = text_files(Path(words[-1]), lambda note: print_notes([note]))[0 if forward else -1]
    require_regular_file(text)
    timeout = {} if teacher_timeout is None else {"timeout": teacher_timeout}
    load = partial(TranslatorSpec, compute_type=compute_type, device=device, threads=threads)
    teacher: AnyTeacher
    if teacher_command is not None:
        teacher = CommandTeacher(command=teacher_command, **timeout)
    elif teacher_url is not None:
        teacher = _chat_teacher(teacher_url, teacher_model, text, (src_lang, tgt_lang), yes=yes, **timeout)
    else:
        options = TranslationOptions(source_prefix=before)
        teacher = load(models=[Path(words[0])], search_overrides=overrides, options=options)
    back = None
    if round_trip is not None:
        options = TranslationOptions()
        if not teachers:  # whose languages are known
            source, target = read_metadata(find_model(Path(words[0]))).direction(before)
            options = TranslationOptions(source_prefix=prefix_between(round_trip, target, source))
        back = load(models=[round_trip], options=options)
    with TranslationProgress(terminal(), is_terminal=is_terminal(), count_lines=partial(count_lines, text)) as progress:
        synthetic = SyntheticText(
            text=text,
            folder=output,
            teacher=teacher,
            is_target=not forward,
            noise_seed=(1 if seed is None else seed) if noise else None,
            round_trip=back,
            keep=0.9 if keep is None else keep,
            num_workers=workers,
            cluster=cluster,
            reports=[progress.add],
        )
        if synthetic.is_current():
            sentence = "unchanged"
        else:
            sentence = synthetic.make() if shard is None else synthetic.make_shard(shard)
    print_notes([sentence])
    if shard is not None:
        return
    pair = json.dumps({"src": str(output / SOURCE), "tgt": str(output / TARGET)}, ensure_ascii=False)
    print_results([], notes=[f"to train on it, add to corpus.train: {pair}"])


def _chat_teacher(
    url: str,
    model: str | None,
    text: Path,
    languages: tuple[str | None, str | None],
    *,
    yes: bool,
    timeout: float = 60.0,
) -> ChatTeacher:
    """The server that translates, once the user agrees to what will be sent to it.

    Raises:
        UsageError: no model or no languages are named, or the user does not agree.
    """
    import os

    from mtkit.cli.printing import is_terminal, print_notes
    from mtkit.errors import UsageError
    from mtkit.text.lines import read_lines
    from mtkit.translate.teachers import KEY_VARIABLE, ChatTeacher

    source, target = languages
    if model is None or source is None or target is None:
        raise UsageError(
            "backtranslate: --teacher-url needs --teacher-model NAME, and the languages of the request: --src-lang and "
            "--tgt-lang, such as German and English"
        )
    key = os.environ.get(KEY_VARIABLE, "").strip()
    teacher = ChatTeacher(url=url, model=model, languages=(source, target), key=key, timeout=timeout)
    lines = [len(line.encode()) for line in read_lines(text) if line.strip()]
    sent = f"{len(lines):,} requests with {sum(lines):,} bytes of text, about {sum(lines) // 4:,} tokens"
    print_notes([f"{teacher.host} receives {sent}, and writes about as many"])
    if not yes and not (is_terminal() and input("Send them? [y/N] ").strip().lower() in ("y", "yes")):
        raise UsageError("backtranslate: nothing was sent; --yes agrees to it")
    return teacher
