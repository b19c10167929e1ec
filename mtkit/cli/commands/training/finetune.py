"""`mtkit finetune`: own text for an existing model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit.cli.commands.translation.options import Encoding
from mtkit.cli.options import (
    Device,
    DocId,
    Format,
    Fresh,
    Model,
    ModelSrcLang,
    ModelTgtLang,
    Prefix,
    Tag,
    TestFiles,
    ValidFiles,
    non_empty_path,
    parse_prefix,
)


def finetune(
    model: Model,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SRC TGT|FILE [key=value]...",
            help="Two text files, line by line, or one document with both, such as .tmx or .xlsx; then keys.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", "--run-dir", metavar="RUN", parser=non_empty_path, help="Run to write.")
    ],
    general: Annotated[
        list[Path] | None,
        typer.Option(
            "--general", metavar="SRC TGT", help="General text: replayed in training, and watched (repeatable)."
        ),
    ] = None,
    general_source: Annotated[
        Path | None,
        typer.Option("--general-source", metavar="FILE", help="The same without translations; the model makes them."),
    ] = None,
    general_test: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--general-test", metavar="SRC TGT", help="Test set of --general (default: split)."),
    ] = None,
    general_share: Annotated[
        float | None,
        typer.Option(
            "--general-share",
            min=0.0,
            max=0.9,
            help="Its share of the tokens (default: that of your text for each); 0 only watches.",
        ),
    ] = None,
    keep_general: Annotated[
        float | None,
        typer.Option(
            "--keep-general",
            metavar="BLEU",
            min=0.0,
            help="Also mix the weights before and after, to lose at most this much on general text.",
        ),
    ] = None,
    adapter: Annotated[
        Literal["lora", "bias", "norm"] | None,
        typer.Option("--adapter", help="Train updates of low rank, biases or norms alone (docs/finetune.md)."),
    ] = None,
    extend_tokenizer: Annotated[
        int | None,
        typer.Option(
            "--extend-tokenizer", metavar="N", min=1, help="Add up to N pieces for your text to the tokenizer."
        ),
    ] = None,
    add_language: Annotated[
        str | None,
        typer.Option(
            "--add-language", metavar="NEW=RELATIVE", help="Add a language, whose token begins as that of a relative."
        ),
    ] = None,
    budget: Annotated[str | None, typer.Option("--budget", metavar="TIME", help="Fit it to 10m or 2h.")] = None,
    valid: ValidFiles = None,
    test: TestFiles = None,
    docid: DocId = None,
    encoding: Encoding = None,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    fresh: Fresh = False,
    device: Device = None,
    form: Format = None,
) -> None:
    """Fine-tune a model on text of your own.

    The tokenizer is kept, unless --extend-tokenizer adds pieces. The learning rate is measured by short trainings;
    updates end with patience or the budget. The result is an ordinary run, which a repeated command resumes, and a
    table of scores before and after. A fine-tuning that gains nothing on the validation part of your text keeps the
    model as it was.
    """
    from mtkit.errors import UsageError
    from mtkit.recipe.defaults.facts import check_budget
    from mtkit.recipe.recipe import check_overrides
    from mtkit.text.language_tags import is_code

    files = [Path(word) for word in words if "=" not in word or Path(word).is_file()]
    overrides = words[len(files) :]
    if not 1 <= len(files) <= 2 or words[: len(files)] != [str(path) for path in files]:
        raise UsageError("finetune: give a source and its translation, or one file with both; then key=value")
    limits = check_budget(budget, overrides)
    check_overrides([*([f"training.adapter.kind={adapter}"] if adapter else []), *overrides])
    pairs = list(zip((general or [])[::2], (general or [])[1::2], strict=True))
    if general_test is not None and len(pairs) != 1:
        raise UsageError("finetune: --general-test is the test set of --general; give one of each")

    names = [] if add_language is None else add_language.split("=")
    if add_language is not None and (len(names) != 2 or not all(map(is_code, names))):
        raise UsageError(
            f"--add-language {add_language}: name the new language and one of the model's that it resembles, such as "
            "gsw_Latn=deu_Latn"
        )

    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines, print_results
    from mtkit.finetuning.extension import NewLanguage
    from mtkit.finetuning.finetune import FinetuneOptions, finetune
    from mtkit.finetuning.texts import GivenText
    from mtkit.hardware import limit_spinning, on_device, tune_malloc

    options = FinetuneOptions(
        base=model,
        run=output,
        text=GivenText(tuple(files), valid, test, docid, encoding),
        general=tuple(GivenText(pair, None, general_test) for pair in pairs),
        general_source=general_source,
        general_share=general_share,
        limits=limits,
        prefix=parse_prefix(tag, prefix, src_lang, tgt_lang),
        overrides=tuple(overrides),
        keep_general=keep_general,
        adapter=adapter,
        extend_tokenizer=extend_tokenizer,
        add_language=None if add_language is None else NewLanguage(*names),
        fresh=fresh,
    )
    limit_spinning()
    tune_malloc()
    with on_device(device), open_display() as display:
        report = finetune(options, display)
    if report.choice and form in (None, "text"):
        print_lines([report.choice, ""])
    print_results(report.tables, form, content=report.content)
    if form is None or form == "text":
        print_results([], notes=report.lines)
