"""A recipe for two text files: languages guessed, valid and test split off, everything else chosen from the corpus."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.corpus.split import Part
from mtkit.errors import RecipeError, UsageError
from mtkit.io.files import require_regular_file, write_text
from mtkit.pipeline.open_run import run_folder_path
from mtkit.pipeline.run_folder import RunFolder
from mtkit.pipeline.setup.held_out import Pair, ParallelText, changed_texts, split_corpus
from mtkit.pipeline.setup.languages import check_held_out, guess_languages, language_notes
from mtkit.recipe.paths import RECIPE_SUFFIXES
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import describe_choices
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
        valid, test: source and target of sets that are not split off.
        output: the recipe; None: `STEM-SRC-TGT.yaml` in the current directory.
    """

    src_lang: str | None = None
    tgt_lang: str | None = None
    docid: Path | None = None
    valid: Pair | None = None
    test: Pair | None = None
    output: Path | None = None

    @property
    def held_out(self) -> dict[Part, Pair]:
        """The files of valid and test that are given."""
        parts: dict[Part, Pair | None] = {"valid": self.valid, "test": self.test}
        return {part: files for part, files in parts.items() if files is not None}


@dataclass(frozen=True)
class NewRecipe:
    """A recipe that was written."""

    path: Path
    notes: list[str]


def new_recipe(src: Path, tgt: Path, options: NewRecipeOptions = NewRecipeOptions()) -> NewRecipe:
    """Write a recipe for two text files, and the files of train, valid and test in a folder beside it.

    Args:
        src: text file.
        tgt: its translation, line by line.
        options: stated by the user.

    Raises:
        UsageError: the recipe exists; or as `plan_recipe`.
        DataError: the texts are unusable; see `guess_languages`, `check_held_out` and `split_corpus`.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    plan = plan_recipe(src, tgt, options)
    if plan.output.exists():
        raise UsageError(f"{plan.output}: exists; delete it, or name another file with -o")
    return plan.write()


@dataclass(frozen=True)
class RecipePlan:
    """Recipe and split of two text files, to be written."""

    output: Path
    corpus: ParallelText
    notes: list[str]

    @property
    def folder(self) -> Path:
        """The folder of train, valid and test."""
        return self.output.with_name(f"{self.output.stem}-data")

    def write(self) -> NewRecipe:
        """Write the split, or bring it up to date, and the recipe unless it exists.

        Raises:
            UsageError, DataError, ReadWriteError: as `split_corpus`.
        """
        notes = [*self.notes, *split_corpus(self.corpus, self.folder).describe()]
        if not self.output.exists():
            _write_recipe(self.output, self.folder, self.corpus, notes)
            notes.append(f"recipe: {self.output}, text in {self.folder}")
        return NewRecipe(self.output, notes)

    def forbid_overwrite(self, overrides: Sequence[str], run_dir: Path | None, *, fresh: bool) -> None:
        """Check that no training was started with the recipe from a split that would be written again.

        Args:
            overrides: of the recipe, `key=value` each.
            run_dir: the run folder; None: that of the recipe.
            fresh: the training in the run folder will be deleted.

        Raises:
            RecipeError: there is one, and a text has changed; or the recipe is invalid.
            UsageError, DataError, ReadWriteError: as `changed_texts`.
        """
        changed = changed_texts(self.corpus, self.folder)
        if not changed or not self.output.exists():
            return
        recipe = load_recipe(str(self.output), overrides, allow_commands=True)
        current, usual = run_folder_path(recipe, run_dir), run_folder_path(recipe, None)
        replaced = {current} if fresh else set()
        for path in sorted({current, usual} - replaced):
            if RunFolder(path).has_training():
                raise RecipeError(
                    f"{' and '.join(map(str, changed))}: changed since the training in {path} was started; start over "
                    f"with --fresh, continue with the old text (mtkit run {shell_word(self.output)}), or write a "
                    "recipe for the new one: mtkit new SRC TGT -o OTHER.yaml"
                )


def plan_recipe(src: Path, tgt: Path, options: NewRecipeOptions = NewRecipeOptions()) -> RecipePlan:
    """Check two text files and guess their languages; nothing is written.

    Args:
        src: see `new_recipe`.
        tgt: see `new_recipe`.
        options: see `new_recipe`.

    Raises:
        UsageError: the recipe is one of the texts or has another suffix than .yaml, or a language is unknown.
        DataError, MissingInputError, ReadWriteError: as `new_recipe`.
    """
    paths = [src, tgt, *([options.docid] if options.docid else []), *sum(options.held_out.values(), ())]
    for path in paths:
        require_regular_file(path)
    first, second = guess_languages(src, tgt, options.src_lang, options.tgt_lang)
    check_held_out(options.held_out, (first.code, second.code))
    stem = re.sub(r"[^\w.-]", "-", stem_of(src)).lstrip(".-") or "text"
    output = options.output or Path(f"{stem}-{first.code}-{second.code}.yaml")
    if output.resolve() in {path.resolve() for path in paths}:
        raise UsageError(f"{output}: is one of the texts, which the recipe would overwrite; name another file with -o")
    if output.is_dir():
        raise UsageError(f"{output}: a folder; name the recipe's file with -o, such as {output / 'recipe.yaml'}")
    if output.suffix not in RECIPE_SUFFIXES:
        raise UsageError(f"{output}: the name of a recipe ends in .yaml; give -o {output}.yaml")
    corpus = ParallelText(src, tgt, (first.code, second.code), options.docid, options.held_out)
    return RecipePlan(
        output, corpus, [*language_notes(src, first, "--src-lang"), *language_notes(tgt, second, "--tgt-lang")]
    )


def _write_recipe(output: Path, folder: Path, files: ParallelText, notes: list[str]) -> None:
    name = re.sub(r"[^\w.-]", "-", output.stem).lstrip(".-") or "text"
    words = [files.src, files.tgt, *(["--docid", files.docid] if files.docid else [])]
    words += [word for part, pair in files.held_out.items() for word in (f"--{part}", *pair)]
    text = _TEMPLATE.format(
        title=_printable(f"Written by mtkit new {shlex.join(map(str, words))}"),
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
