"""Arguments and options that several commands share."""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cli.printing import STDOUT
from mtkit.display import TableFormat
from mtkit.errors import UsageError

if TYPE_CHECKING:
    from mtkit.text.source_prefix import SourcePrefix

ComputeType = Literal["auto", "float32", "bf16", "int8"]
Side = Literal["src", "tgt"]
MAX_THREADS = 1024  # also of processes; more is a typing error and would exceed the limits of the system


def non_empty_path(name: str) -> Path:
    """Parse a folder name; an empty one (an unset shell variable) must not mean the current folder.

    Raises:
        BadParameter: the name is empty.
    """
    if not name:
        raise typer.BadParameter("is empty; name a folder, or omit the option to use runs/NAME")
    return Path(name)


def forbid_overwriting_input(
    command: str, output: Path | None, inputs: Iterable[Path | None], *, option: str = "--json"
) -> None:
    """Refuse to overwrite a file that a command reads, or a file that a model or a run consists of.

    Args:
        output: the value of `option`; None: the option was omitted.
        inputs: files that the command reads; None: an option was omitted.

    Raises:
        UsageError: `output` is one of these files.
    """
    if output is None or not output.is_file():  # a device, such as /dev/null, loses nothing
        return
    if output.resolve() in {each.resolve() for each in inputs if each is not None}:
        raise UsageError(f"{command}: {option} {output} would overwrite an input file; name another FILE")
    if (owner := _owner(output.resolve())) is not None:
        raise UsageError(f"{command}: {option} {output} would overwrite a file of {owner}; name another FILE")


def forbid_repeated(command: str, paths: Iterable[Path]) -> None:
    """Refuse inputs of which two are one file or folder, also under different names.

    Raises:
        UsageError: two are.
    """
    for one, other in combinations(paths, 2):
        if one == other:
            raise UsageError(f"{command}: {one} is given twice; omit one of the two")
        if one.exists() and other.exists() and one.samefile(other):
            kind = "folder" if one.is_dir() else "file"
            raise UsageError(f"{command}: {one} and {other} are one {kind}; omit one of the two")


def parse_adapters(command: str, values: Iterable[str]) -> dict[str, Path]:
    """Folders of adapters by name, from FOLDER, whose name is empty, or NAME=FOLDER each.

    A NAME has no slash, so that ./a=b is a folder.

    Raises:
        UsageError: two adapters have one name, or a name or folder is empty.
    """
    folders: dict[str, Path] = {}
    for value in values:
        name, equals, folder = value.partition("=")
        is_named = bool(equals) and "/" not in name
        if is_named and not (name.strip() and folder):
            raise UsageError(f"{command}: --adapter {value}: the form is FOLDER or NAME=FOLDER")
        name, folder = (name, folder) if is_named else ("", value)
        if name in folders:
            which = f"two adapters are named {name}" if name else "two adapters have no name"
            raise UsageError(f"{command}: --adapter {value}: {which}; give each a NAME=FOLDER of its own")
        folders[name] = Path(folder)
    return folders


def _writable_file(file: Path | None) -> Path | None:
    """Refuse a file that cannot be written before the results are computed.

    Raises:
        UsageError: it is stdout by its path, which has the results in words.
        ReadWriteError: it is a folder, or its folder does not exist.
    """
    from mtkit.io.files import translate_write_errors

    if file == Path("/dev/stdout"):
        raise UsageError("--json: stdout has the results in words; give - to have them as JSON instead, or name a FILE")
    if file not in (None, STDOUT):
        with translate_write_errors(file):
            if file.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not file.parent.is_dir():
                raise FileNotFoundError
    return file


def _owner(file: Path) -> str | None:
    """Return the model or run folder that has this file for a part, in words; None if there is none."""
    if any((file.parent / name).is_file() for name in ("config.json", "mtkit.json")):
        from mtkit.model_folder.config_file import is_part_of_model

        if is_part_of_model(file):
            return f"the model {file.parent}"
    for folder in file.parents:
        if (folder / "version.json").is_file():
            from mtkit.pipeline.run_folder import RunFolder

            if RunFolder(folder).has_part(file):
                return f"the run folder {folder}"
    return None


def parse_prefix(
    tag: str | None, prefix: str | None, src_lang: str | None = None, tgt_lang: str | None = None
) -> SourcePrefix:
    """Check the values of --tag, --prefix, --src-lang and --tgt-lang.

    Raises:
        UsageError: a value is not what a recipe allows.
    """
    from mtkit.recipe.type_hints import misfit
    from mtkit.text.source_prefix import NAME_OF_TAG, SourcePrefix

    if tag is not None:
        tag = re.sub(r"^>>(.+)<<$", r"\1", tag)  # as OPUS-MT writes it
    values = {"tag": tag, "prefix": prefix, "src_lang": src_lang, "tgt_lang": tgt_lang}
    if (option := misfit(values, SourcePrefix)) is not None:
        expected = NAME_OF_TAG if option == "tag" else "text, but blank; omit the option"
        raise UsageError(f"--{option.replace('_', '-')}: {values[option]!r} is not {expected}")
    return SourcePrefix(**values)


def complete_files(incomplete: str) -> list[str]:
    """Files and folders that begin with the characters typed, for shell completion."""
    return [f"{path}/" if path.is_dir() else str(path) for path in sorted(Path().glob(f"{glob.escape(incomplete)}*"))]


def complete_recipe(incomplete: str) -> list[str]:
    """Built-in recipes, and files."""
    from mtkit.recipe.paths import builtin_files

    return [*(each for each in builtin_files("recipe") if each.startswith(incomplete)), *complete_files(incomplete)]


def complete_claim(incomplete: str) -> list[str]:
    """Built-in claims, and files."""
    from mtkit.recipe.paths import builtin_files

    return [*(each for each in builtin_files("claim") if each.startswith(incomplete)), *complete_files(incomplete)]


def complete_key(incomplete: str) -> list[str]:
    """Keys of a recipe, one section at a time."""
    from mtkit.recipe.sections import Recipe
    from mtkit.recipe.type_hints import walk_keys

    depth = incomplete.count(".") + 1
    paths = (path for path, _, _ in walk_keys(Recipe) if path.startswith(incomplete))
    return list(dict.fromkeys(".".join(path.split(".")[:depth]) for path in paths))


def complete_override(incomplete: str) -> list[str]:
    """Keys of a recipe with =, where a value follows, or with a dot, where another key does; and files."""
    from mtkit.recipe.sections import Recipe
    from mtkit.recipe.type_hints import walk_keys

    above = {path.rpartition(".")[0] for path, _, _ in walk_keys(Recipe)}
    keys = [f"{key}." if key in above else f"{key}=" for key in complete_key(incomplete)]
    return [*keys, *complete_files(incomplete)]


# a recipe
Recipe = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="YAML file, or the name of a built-in recipe.", autocompletion=complete_recipe
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="key=value",
        help="Override keys of the recipe: training.seed=2.",
        autocompletion=complete_override,
    ),
]
RunDir = Annotated[
    Path | None,
    typer.Option("--run-dir", metavar="FOLDER", parser=non_empty_path, help="Folder of the run (default: runs/NAME)."),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh/--resume", help="Start over and replace an existing training, or resume it (the default)."),
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Fit omitted keys of the recipe to 30m, 2h, 1d, or best (no limit)."),
]
AllowCommands = Annotated[
    bool,
    typer.Option("--allow-commands", help="Let the recipe run a shell command (training.validation.command)."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only estimate parameters, memory and time; needs no corpus.")]

# two texts
RecipeFile = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Recipe to write (default: NAME-SRC-TGT.yaml).")
]
SrcLang = Annotated[str | None, typer.Option("--src-lang", metavar="CODE", help="Language of SRC.")]
TgtLang = Annotated[str | None, typer.Option("--tgt-lang", metavar="CODE", help="Language of TGT.")]
DocId = Annotated[
    Path | None, typer.Option("--docid", metavar="FILE", help="Document of each line, to split by document.")
]
ValidFiles = Annotated[
    tuple[Path, Path] | None, typer.Option("--valid", metavar="SRC TGT", help="Validation set (default: split).")
]
TestFiles = Annotated[
    tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="Test set (default: split).")
]
ParallelText = Annotated[
    list[str],
    typer.Argument(
        metavar="SRC TGT|FILE...|RECIPE [key=value]...",
        help="Two text files, line by line; files with both sides, such as .tsv or .tmx (- is TSV on stdin); a recipe.",
        autocompletion=complete_recipe,
    ),
]
HeldOutValid = Annotated[
    tuple[Path, Path] | None, typer.Option("--valid", metavar="SRC TGT", help="Set that is held out.")
]
HeldOutTest = Annotated[
    tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="Set that is held out.")
]


def is_recipe_of_text(command: str, words: list[str], options: Iterable[object]) -> bool:
    """Return whether `ParallelText` is a recipe.

    Args:
        options: values of --src-lang, --tgt-lang, --valid, --test and --encoding.

    Raises:
        UsageError: it is a recipe, and one of the options is given.
    """
    from mtkit.recipe.paths import RECIPE_SUFFIXES, builtin_files

    is_recipe = Path(words[0]).suffix in RECIPE_SUFFIXES or words[0] in builtin_files("recipe")
    if is_recipe and any(options):
        raise UsageError(f"{command}: a recipe names its languages and sets; omit --src-lang to --encoding")
    return is_recipe


# a model
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder or run folder.")]
Adapters = Annotated[
    list[str] | None,
    typer.Option(
        "--adapter",
        metavar="FOLDER|NAME=FOLDER",
        help='Adapter of the model, such as RUN/adapter; with a name, of the lines of --jsonl-input whose "adapter" is '
        "NAME (repeatable).",
    ),
]
Ensemble = Annotated[
    list[Path] | None, typer.Option("--ensemble", metavar="MODEL", help="Ensemble with this model (repeatable).")
]

# the source
Tag = Annotated[
    str | None,
    typer.Option("--tag", help="Tag before each source, such as the target language."),
]
Prefix = Annotated[
    str | None,
    typer.Option(
        "--prefix", metavar="TEXT", help="Text before each source, as in training, not the translation's beginning."
    ),
]
ModelSrcLang = Annotated[
    str | None, typer.Option("--src-lang", metavar="CODE", help="Language of the source, of a model of many.")
]
ModelTgtLang = Annotated[
    str | None, typer.Option("--tgt-lang", metavar="CODE", help="Language to translate to, of a model of many.")
]

# a tokenizer
TokenizerPath = Annotated[
    Path,
    typer.Argument(metavar="TOKENIZER", help="Sentencepiece model, subword-nmt BPE codes, model folder or run folder."),
]
SideOption = Annotated[Side, typer.Option("--side", help="Side of a folder that has a tokenizer for each side.")]

# computation
BatchTokens = Annotated[int | None, typer.Option("--batch-tokens", min=1, help="Batch size in tokens.")]
ComputeTypeOption = Annotated[ComputeType, typer.Option("--compute-type", help="Compute precision.")]
NoRewrite = Annotated[
    bool, typer.Option("--no-rewrite", help="Run the model code as written, without faster rewrites of it.")
]
Device = Annotated[str | None, typer.Option("--device", metavar="D", help="Device: cpu, cuda, cuda:1, ...")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, max=MAX_THREADS, help="CPU threads.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, max=MAX_THREADS, help="Number of single-threaded processes (default: by size of FILE)."
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        callback=_writable_file,
        help="Write JSON to FILE; - writes it instead of the text.",
    ),
]
HtmlFile = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        callback=_writable_file,
        help="Write a page of HTML that needs nothing else to FILE.",
    ),
]
Format = Annotated[
    TableFormat | None,
    typer.Option("--format", metavar="FORM", help="text (the default), json, markdown, latex or tsv."),
]
