"""A recipe for two text files: languages guessed, valid and test split off, everything else chosen from the corpus."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mtkit.corpus.split import Part
from mtkit.errors import UsageError
from mtkit.io.files import require_regular_file, write_text
from mtkit.pipeline.setup.held_out import Pair, ParallelText, split_corpus
from mtkit.pipeline.setup.languages import check_held_out, guess_languages, language_notes
from mtkit.recipe.builtin import RECIPE_SUFFIXES
from mtkit.recipe.recipe import describe_choices, load_recipe
from mtkit.text.language import stem_of

_TEMPLATE = """\
# {title}
{notes}
name: {name}

corpus:
  root: {root}
  src_lang: {src}
  tgt_lang: {tgt}
  train: [{{src: train.{src}, tgt: train.{tgt}}}]
  valid: {{src: valid.{src}, tgt: valid.{tgt}}}
  test:
    test: {{src: test.{src}, tgt: test.{tgt}}}

# The keys that are left out are chosen from the corpus and the machine (docs/defaults.md); {command} --dry-run
# shows them with the expected time. State a key to decide it yourself, here or on the command line:
# tokenizer: {{vocab_size: 8000}}
# model: {{d_model: 256, dropout: 0.3}}
# training: {{max_updates: 8000, seed: 2}}
"""


@dataclass(frozen=True)
class NewRecipeOptions:
    """Options of the user about two text files.

    Attributes:
        src_lang: code; None: guess.
        tgt_lang: code; None: guess.
        docid: file with the name of each line's document.
        held_out: files of valid and test.
    """

    src_lang: str | None = None
    tgt_lang: str | None = None
    docid: Path | None = None
    held_out: Mapping[Part, Pair] = field(default_factory=dict)


@dataclass(frozen=True)
class NewRecipe:
    """A recipe that was written.

    Attributes:
        path: of the recipe.
        notes: sentences for the user.
    """

    path: Path
    notes: list[str]


def new_recipe(
    src: Path,
    tgt: Path,
    output: Path | None = None,
    options: NewRecipeOptions = NewRecipeOptions(),
    *,
    keep: bool = False,
) -> NewRecipe:
    """Write a recipe for two text files, and the files of train, valid and test in a folder beside it.

    Args:
        src: text file.
        tgt: its translation, line by line.
        output: the recipe; None: `STEM-SRC-TGT.yaml` in the current directory.
        options: stated by the user.
        keep: if the recipe exists, only bring the split up to date.

    Raises:
        UsageError: the recipe exists, is one of the texts or has another suffix than .yaml, or a language is unknown.
        DataError: the texts are unusable; see `guess_languages`, `check_held_out` and `split_corpus`.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    paths = [src, tgt, *([options.docid] if options.docid else []), *sum(options.held_out.values(), ())]
    for path in paths:
        require_regular_file(path)
    first, second = guess_languages(src, tgt, options.src_lang, options.tgt_lang)
    check_held_out(options.held_out, (first.code, second.code))
    stem = re.sub(r"[^\w.-]", "-", stem_of(src)).lstrip(".-") or "text"
    output = output or Path(f"{stem}-{first.code}-{second.code}.yaml")
    if output.resolve() in {path.resolve() for path in paths}:
        raise UsageError(f"{output}: is one of the texts, which the recipe would overwrite; name another file with -o")
    if output.is_dir():
        raise UsageError(f"{output}: a folder; name the recipe's file with -o, such as {output / 'recipe.yaml'}")
    if output.suffix not in RECIPE_SUFFIXES:
        raise UsageError(f"{output}: the name of a recipe ends in .yaml; give -o {output}.yaml")
    if output.exists() and not keep:
        raise UsageError(f"{output}: exists; delete it, or name another file with -o")
    folder = output.with_name(f"{output.stem}-data")
    corpus = ParallelText(src, tgt, (first.code, second.code), options.docid, options.held_out)
    report = split_corpus(corpus, folder)
    languages = [*language_notes(src, first, "--src-lang"), *language_notes(tgt, second, "--tgt-lang")]
    notes = [*languages, *report.describe()]
    if not output.exists():
        _write_recipe(output, folder, corpus, notes)
        notes.append(f"recipe: {output}, text in {folder}")
    return NewRecipe(output, notes)


def _write_recipe(output: Path, folder: Path, files: ParallelText, notes: list[str]) -> None:
    name = re.sub(r"[^\w.-]", "-", output.stem).lstrip(".-") or "text"
    text = _TEMPLATE.format(
        title=_printable(f"Written by mtkit new {shlex.quote(str(files.src))} {shlex.quote(str(files.tgt))}"),
        notes="\n".join(f"# {_printable(note)}" for note in notes),
        name=_quoted(name),
        root=_quoted(folder.name),
        src=files.langs[0],
        tgt=files.langs[1],
        command=_printable(f"mtkit run {shell_word(Path(output.name))}"),
    )
    write_text(output, text)
    chosen = "\n".join(f"#   {choice}" for choice in describe_choices(load_recipe(str(output))))
    write_text(output, f"{text}# Chosen on this machine, from this text:\n{chosen}\n")


def shell_word(path: Path) -> str:
    """Return a path as a word of a command line, which is no option if the name begins with a dash."""
    name = str(path)
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def _quoted(text: str) -> str:
    """Return a double-quoted scalar of YAML in one line."""
    return '"' + _printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _printable(text: str) -> str:
    """Return text with the escapes of YAML for line breaks and other characters that cannot be printed."""
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)
