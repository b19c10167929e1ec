"""`mtkit train-bpe`: train a subword tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import RunDir, forbid_overwriting_input, forbid_repeated
from mtkit.text.config import ModelType, TokenizerConfig

MAX_VOCAB_SIZE = 1_000_000


def _prefix(name: str) -> Path:
    """Parse -o.

    Raises:
        BadParameter: the last part of the path is no name.
    """
    if name.rpartition("/")[2] in ("", ".", ".."):
        raise typer.BadParameter(f"{name!r}: PREFIX must end in a file name, for PREFIX.model and PREFIX.vocab")
    return Path(name)


def train_bpe(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Training text; with --recipe key=value overrides.")
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option("--vocab-size", min=1, max=MAX_VOCAB_SIZE, help="Vocabulary size.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PREFIX", parser=_prefix, help="Write PREFIX.model and PREFIX.vocab."),
    ] = None,
    model_type: Annotated[
        ModelType | None, typer.Option("--model-type", help="Kind of subword model (default: bpe).")
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", metavar="SIZES", help="Compare these vocabulary sizes, such as 4000,8000,16000."),
    ] = None,
    min_frequency: Annotated[
        int | None, typer.Option("--min-frequency", min=1, help="Rarer words or characters are unknown (word, char).")
    ] = None,
    pad_to_multiple_of: Annotated[
        int | None,
        typer.Option("--pad-to-multiple-of", min=1, max=1024, help="Add unused tokens up to a multiple of N."),
    ] = None,
    recipe: Annotated[str | None, typer.Option("--recipe", help="Train the tokenizer of this recipe instead.")] = None,
    run_dir: RunDir = None,
) -> None:
    """Train a subword tokenizer.

    Give either text files with --vocab-size and -o, or --recipe RECIPE. Files may be of several languages, as in
    train.de train.en, or have both sides, as train.tmx#de,en; fertility and unknown tokens are reported for each. With
    --sweep, -o is optional and each model is written to PREFIX.SIZE.model.
    """
    from mtkit.errors import UsageError

    if recipe is not None:
        if any(each is not None for each in (vocab_size, output, model_type, sweep, min_frequency, pad_to_multiple_of)):
            raise UsageError(
                "train-bpe: with --recipe use tokenizer.KEY=VALUE and --run-dir instead of the other options"
            )
        from mtkit.recipe.recipe import read_recipe

        # before torch is imported, so that errors appear at once; commands run in trainings alone
        draft = read_recipe(recipe, files or [], allow_commands=True)

        from mtkit.cli.display import open_display
        from mtkit.cli.printing import print_notes, print_results
        from mtkit.pipeline import stages
        from mtkit.pipeline.choices import choose_for_run

        with open_display() as display:
            report = stages.train_tokenizer(
                choose_for_run(draft, run_dir=run_dir, notify=lambda text: print_notes([text])),
                run_dir=run_dir,
                display=display,
            )
        print_results([], notes=report.lines)
        return
    if run_dir is not None:
        raise UsageError("train-bpe: --run-dir needs --recipe; with FILE... use -o PREFIX")
    if not files or (sweep is None and (vocab_size is None or output is None)):
        raise UsageError("train-bpe: give FILE... --vocab-size N -o PREFIX, or --recipe RECIPE")
    if sweep is not None and vocab_size is not None:
        raise UsageError("train-bpe: --sweep names the vocabulary sizes; omit --vocab-size")
    if output is not None and output.suffix in (".model", ".vocab"):
        raise UsageError(f"train-bpe: -o {output}: PREFIX is without {output.suffix}; give -o {output.with_suffix('')}")
    words = [str(vocab_size)] if sweep is None else sweep.replace(",", " ").split()
    if not words or not all(
        word.isascii() and word.isdigit() and 0 < int(word[:8]) <= MAX_VOCAB_SIZE for word in words
    ):
        raise UsageError(
            f"train-bpe: --sweep {sweep}: give sizes up to {MAX_VOCAB_SIZE:,} with commas, such as 4000,8000,16000"
        )
    sizes = sorted({int(word) for word in words})
    config = _config(model_type or "bpe", min_frequency or 1, pad_to_multiple_of or 1)

    from mtkit.cli.printing import print_notes
    from mtkit.documents.pair_lines import text_files

    paths = [path for file in files for path in text_files(Path(file), lambda text: print_notes([text]))]
    forbid_repeated("train-bpe", paths)
    for size in sizes:
        if output is None:  # a sweep that writes nothing
            break
        prefix = _sized_prefix(output, size, is_sweep=sweep is not None)
        for ending in ("model", "vocab"):
            forbid_overwriting_input("train-bpe", prefix.with_name(f"{prefix.name}.{ending}"), paths, option="-o")
    if output is None:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            _train_sizes(paths, sizes, Path(folder) / "spm", config, is_sweep=True)
    else:
        from mtkit.io.lock import OutputLock

        with OutputLock(output):  # so that PREFIX.model and PREFIX.vocab belong together
            _train_sizes(paths, sizes, output, config, is_sweep=sweep is not None)


def _config(kind: ModelType, min_frequency: int, multiple: int) -> TokenizerConfig:
    """The configuration of a tokenizer.

    Raises:
        UsageError: the options contradict each other.
    """
    from mtkit.errors import UsageError

    if min_frequency > 1 and kind not in ("word", "char"):
        raise UsageError(
            f"train-bpe: --min-frequency {min_frequency}: the size of a {kind} vocabulary is --vocab-size alone; "
            "omit it, or give --model-type word or char"
        )
    return TokenizerConfig(model_type=kind, min_frequency=min_frequency, pad_to_multiple_of=multiple, normaliser="none")


def _sized_prefix(output: Path, size: int, *, is_sweep: bool) -> Path:
    return output.with_name(f"{output.name}.{size}") if is_sweep else output


def _train_sizes(files: list[Path], sizes: list[int], output: Path, config: TokenizerConfig, *, is_sweep: bool) -> None:
    """Train a model of each size and print the report of each; one that is replaced is named."""
    from dataclasses import replace

    from mtkit.cli.printing import print_lines, print_notes
    from mtkit.text.subword.tokenizer import Tokenizer
    from mtkit.text.subword.usage_report import measure_usage, usage_lines
    from mtkit.text.train_tokenizer import SettingNames, train_tokenizer

    size_option = "--sweep" if is_sweep else "--vocab-size"
    names = SettingNames(vocab_size=size_option, min_frequency="--min-frequency", character_coverage=None)
    for size in sizes:
        prefix = _sized_prefix(output, size, is_sweep=is_sweep)
        model = prefix.with_name(f"{prefix.name}.model")
        notes = [f"{model}: replaced"] if model.exists() else []
        report = train_tokenizer(files, prefix, replace(config, vocab_size=size), names=names)
        print_notes(notes)
        tokenizer = Tokenizer.load(model)
        print_lines(
            [report.describe(), *(f"  {line}" for line in usage_lines(measure_usage(tokenizer, files), tokenizer))]
        )
