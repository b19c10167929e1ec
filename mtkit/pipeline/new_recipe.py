"""A recipe for a parallel text: languages guessed, valid and test split off, everything else chosen from the corpus.

The files of train, valid and test are kept in a folder with split.json.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from mtkit.corpus.line_shift import forbid_shifted_lines
from mtkit.corpus.split import GIVE_HELD_OUT, HeldOutLines, Part, SplitLimits, TextFindings, hash_pairs, read_pairs
from mtkit.display import count_of
from mtkit.documents.pair_lines import PairLines
from mtkit.documents.pairs import find_files
from mtkit.documents.reading import Report, ignore
from mtkit.errors import DataError, RecipeError, UsageError
from mtkit.io.files import atomic_folder, changed_files, hash_file, hash_files, require_regular_file, write_text
from mtkit.io.records import Json, read_record, write_record
from mtkit.pipeline.languages import check_held_out, guess_languages, language_notes
from mtkit.pipeline.open_run import run_folder_path
from mtkit.pipeline.run_folder import RunFolder
from mtkit.recipe.paths import RECIPE_SUFFIXES
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import describe_choices
from mtkit.text.language import split_name
from mtkit.text.lines import check_line_counts, without_compression

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
# with which a class of transformers computes the model; docs/defaults.md has the measurements
_EXPORTABLE = """
# For mtkit export --to huggingface:
tokenizer: {shared: true}
model:
  encoder_positions: {kind: sinusoidal}
  decoder_positions: {kind: sinusoidal}
"""
EXPORTABLE_NOTE = (
    "exportable to the layout of Hugging Face: sinusoidal positions, 1.7 BLEU behind rotary ones after three epochs, "
    "1.9 after six, and one vocabulary for both languages"
)
RECORD = "split.json"
FEW_PAIRS = 1000  # for training; 1,812 captions give BLEU 12 on other captions (docs/evidence.md)
Pair = tuple[Path, Path]
PARTS: tuple[Part, ...] = ("train", "valid", "test")
HELD_OUT_FIRST: tuple[Part, ...] = ("valid", "test", "train")
_ELSEWHERE = "write the recipe of these texts elsewhere: mtkit new SRC TGT -o OTHER.yaml, then mtkit run OTHER.yaml"


@dataclass(frozen=True)
class NewRecipeOptions:
    """Options of the user about a parallel text.

    Attributes:
        src_lang: code; None: guess.
        tgt_lang: code; None: guess.
        docid: file with the name of each line's document.
        valid, test: source and target of sets that are not split off.
        output: the recipe; None: `STEM-SRC-TGT.yaml` in the current directory.
        exportable: the recipe states settings with which a class of transformers computes the model.
        encoding: of documents; None: as they declare.
    """

    src_lang: str | None = None
    tgt_lang: str | None = None
    docid: Path | None = None
    valid: Pair | None = None
    test: Pair | None = None
    output: Path | None = None
    exportable: bool = False
    encoding: str | None = None

    @property
    def langs(self) -> tuple[str, str]:
        """The stated languages; empty: unknown."""
        return self.src_lang or "", self.tgt_lang or ""

    @property
    def held_out(self) -> dict[Part, Pair]:
        """The files of valid and test that are given."""
        parts: dict[Part, Pair | None] = {"valid": self.valid, "test": self.test}
        return {part: files for part, files in parts.items() if files is not None}


def new_recipe(files: Sequence[Path], options: NewRecipeOptions, notify: Report = ignore) -> tuple[Path, list[str]]:
    """Write a recipe for a parallel text, and the files of train, valid and test in a folder beside it.

    Args:
        files: a text file and its translation, line by line; or one name of parallel text, see documents/pairs.py.
        options: stated by the user.
        notify: receives sentences about pairs that are extracted from documents.

    Returns:
        The recipe and notes about it.

    Raises:
        UsageError: the recipe exists; or as `plan_recipe`.
        DataError: the texts are unusable; see `guess_languages`, `check_held_out` and `split_corpus`.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    plan = plan_recipe(files, options, notify)
    if plan.output.exists():
        raise UsageError(f"{plan.output}: exists; delete it, or name another file with -o")
    return plan.output, plan.write()


@dataclass(frozen=True)
class RecipePlan:
    """Recipe and split of a parallel text, to be written."""

    output: Path
    corpus: ParallelText
    notes: list[str]
    settings: str = ""  # of the recipe, beside those of the corpus

    @property
    def folder(self) -> Path:
        """The folder of train, valid and test."""
        return self.output.with_name(f"{self.output.stem}-data")

    def write(self) -> list[str]:
        """Write the split, or bring it up to date, and the recipe unless it exists; return notes about both.

        Raises:
            UsageError, DataError, ReadWriteError: as `split_corpus`.
        """
        notes = [*self.notes, *split_corpus(self.corpus, self.folder).describe()]
        if not self.output.exists():
            _write_recipe(self.output, self.folder, self.corpus, notes, self.settings)
            notes.append(f"recipe: {self.output}, text in {self.folder}")
        return notes

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


def plan_recipe(files: Sequence[Path], options: NewRecipeOptions, notify: Report = ignore) -> RecipePlan:
    """Check a parallel text and guess its languages; lines of documents are extracted. Arguments as `new_recipe`.

    Raises:
        UsageError: the recipe is one of the texts or has another suffix than .yaml, or a language is unknown.
        DataError, MissingInputError, ReadWriteError: as `new_recipe`.
    """
    document = None if len(files) == 2 else PairLines(files[0], options.langs, options.encoding)
    if document is not None:
        document.require()
    src, tgt = files if document is None else document.files
    if document is not None and document.is_lines:
        document = None
    if document is None and options.encoding is not None:
        raise UsageError("--encoding: is of a document with both sides; convert files of lines with iconv")
    if document is not None and options.docid is not None:
        raise UsageError(f"--docid: names the documents of lines, and {files[0]} has none; omit it")
    given = [src, tgt] if document is None else find_files(document.name)
    paths = [*given, *([options.docid] if options.docid else []), *sum(options.held_out.values(), ())]
    for path in paths:
        require_regular_file(path)
    if document is not None:
        document.extract(notify)
    first, second = guess_languages(src, tgt, options.src_lang, options.tgt_lang)
    check_held_out(options.held_out, (first.code, second.code))
    name, _ = split_name(src if document is None else without_compression(given[0]).with_suffix(""))
    stem = re.sub(r"[^\w.-]", "-", name).lstrip(".-") or "text"
    output = options.output or Path(f"{stem}-{first.code}-{second.code}.yaml")
    if output.resolve() in {path.resolve() for path in paths}:
        raise UsageError(f"{output}: is one of the texts, which the recipe would overwrite; name another file with -o")
    if output.is_dir():
        raise UsageError(f"{output}: a folder; name the recipe's file with -o, such as {output / 'recipe.yaml'}")
    if output.suffix not in RECIPE_SUFFIXES:
        raise UsageError(f"{output}: the name of a recipe ends in .yaml; give -o {output}.yaml")
    corpus = ParallelText(src, tgt, (first.code, second.code), options.docid, options.held_out, document)
    names = [src, tgt] if document is None else [document.name] * 2
    notes = [*language_notes(names[0], first, "--src-lang"), *language_notes(names[1], second, "--tgt-lang")]
    if options.exportable:
        return RecipePlan(output, corpus, [*notes, EXPORTABLE_NOTE], _EXPORTABLE)
    return RecipePlan(output, corpus, notes)


def _write_recipe(output: Path, folder: Path, files: ParallelText, notes: list[str], settings: str) -> None:
    name = re.sub(r"[^\w.-]", "-", output.stem).lstrip(".-") or "text"
    words: list[Path | str] = [files.src, files.tgt] if files.document is None else [files.document.name]
    words += ["--docid", files.docid] if files.docid else []
    words += ["--exportable"] if settings else []
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
    text += settings
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


@dataclass(frozen=True)
class ParallelText:
    """A parallel corpus to be split.

    Attributes:
        langs: codes of both, the suffixes of the new files.
        docid: file with the name of each line's document; None: lines are split one by one.
        held_out: files of valid and test that the user has; these are copied instead of split off.
        document: whose extracted lines both sides are; None: the user has them.
    """

    src: Path
    tgt: Path
    langs: tuple[str, str]
    docid: Path | None
    held_out: Mapping[Part, Pair]
    document: PairLines | None = None

    @cached_property
    def inputs(self) -> Json:
        """Paths and hashes of all files."""
        given = [self.src, self.tgt] if self.document is None else self.document.given
        files = [*given, *([self.docid] if self.docid else []), *sum(self.held_out.values(), ())]
        return {str(path.resolve()): hash_file(path) for path in files}


@dataclass(frozen=True)
class SplitReport:
    """Result of a split.

    Attributes:
        counts: pairs of each part, and `duplicates`: pairs left out because a side is held out already.
    """

    counts: Mapping[str, int]
    findings: TextFindings

    def describe(self) -> list[str]:
        """Return the report as sentences."""
        counts = self.counts
        lines = [*self.findings.describe(), ", ".join(f"{part} {counts[part]:,}" for part in PARTS) + " pairs"]
        if counts["train"] < FEW_PAIRS:
            pairs = count_of(counts["train"], "pair")
            lines.append(f"warning: {pairs} to learn from; expect poor translations of other text")
        if counts["duplicates"]:
            lines.append(f"{count_of(counts['duplicates'], 'pair')} left out, since a side is in valid or test")
        return lines


def split_corpus(corpus: ParallelText, folder: Path) -> SplitReport:
    """Write train, valid and test into a folder, unless they are there and their inputs are unchanged.

    A pair of the text keeps its part when lines were added, since the limits of the first split are kept.

    Raises:
        UsageError: the folder holds the split of other files, or files that mtkit did not write.
        DataError: the corpus is unusable or too small, or the user changed a file of the split.
        ReadWriteError: the folder cannot be written.
    """
    for src, tgt in ((corpus.src, corpus.tgt), *corpus.held_out.values()):
        check_line_counts(src, tgt)
    inputs = corpus.inputs
    record, limits = _read_split(folder, inputs), None
    if record is not None:
        if record["inputs"] == inputs and not changed_files(folder, record["files"]):
            return SplitReport(record["counts"], TextFindings(**record["findings"]))
        for path in sorted(folder.iterdir()):
            if path.name not in record["files"] and path.name != RECORD:
                raise UsageError(f"{path}: not written by mtkit; move it away, since the split is written again")
        limits = SplitLimits(**record["limits"])
    for src, tgt in ((corpus.src, corpus.tgt), *corpus.held_out.values()):
        forbid_shifted_lines(src, tgt)
    hashed = hash_pairs(corpus.src, corpus.tgt, corpus.docid)
    if limits is None:
        limits = SplitLimits(0, 0) if len(corpus.held_out) == 2 else hashed.limits()
    positions = hashed.positions(limits)
    parts = [limits.part_of(float(position)) for position in positions]
    with atomic_folder(folder) as temporary:
        counts = _write(corpus, parts, temporary, min_characters=limits.min_characters)
        findings = replace(
            hashed.findings,
            unusual=int((positions > 1).sum()),
            limits="" if len(corpus.held_out) == 2 else limits.of_lines(),
        )
        record = {"inputs": inputs, "limits": asdict(limits), "counts": counts, "findings": asdict(findings)}
        write_record(temporary / RECORD, {**record, "files": hash_files(temporary)})
    return SplitReport(counts, findings)


def changed_texts(corpus: ParallelText, folder: Path) -> list[Path]:
    """Return the texts whose content is not that of the split in a folder; none if there is no such split.

    Raises:
        UsageError: the folder holds the split of other files, or files that mtkit did not write.
        DataError: the user changed a file of the split.
        ReadWriteError: a text cannot be read.
    """
    record = _read_split(folder, corpus.inputs)
    if record is None:
        return []
    return [Path(name) for name, digest in corpus.inputs.items() if record["inputs"][name] != digest]


def _read_split(folder: Path, inputs: Json) -> Json | None:
    """Return the record of the split that a folder holds; None if there is no folder, or an empty one."""
    if not (folder / RECORD).is_file():
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise UsageError(f"{folder}: exists and is no split of mtkit; {_ELSEWHERE}")
        return None
    record = read_record(folder / RECORD, remedy=f"delete the folder {folder}, and it is made again")
    if record["inputs"].keys() != inputs.keys():
        others = " and ".join(list(record["inputs"])[:2])
        raise UsageError(f"{folder}: holds the split of {others}; {_ELSEWHERE}")
    for name in changed_files(folder, record["files"]):
        if (folder / name).exists():
            raise DataError(
                f"{folder / name}: changed since mtkit wrote it; delete it, and it is written again, or use it as it "
                "is: mtkit run with the recipe instead of the two texts"
            )
    return record


def _write(corpus: ParallelText, parts: list[Part], folder: Path, *, min_characters: int) -> dict[str, int]:
    """Write the files of all parts, held-out ones first, and return their counts.

    A pair of the text stays in train if the user has files of its part.

    Raises:
        DataError: no pair is left for a part.
    """
    parts = ["train" if part in corpus.held_out else part for part in parts]
    counts = Counter(dict.fromkeys((*PARTS, "duplicates"), 0))
    held_out = HeldOutLines(set(), set(), min_characters)
    with ExitStack() as stack:
        files = {
            (part, lang): stack.enter_context((folder / f"{part}.{lang}").open("w", encoding="utf-8", newline="\n"))
            for part in PARTS
            for lang in corpus.langs
        }

        def write(part: Part, pair: tuple[str, str]) -> None:
            for lang, line in zip(corpus.langs, pair, strict=True):
                files[part, lang].write(f"{line}\n")
            counts[part] += 1

        for part, paths in corpus.held_out.items():
            for pair in read_pairs(*paths):
                held_out.add(*pair)
                write(part, pair)
        in_order = (  # the text is read once for each part
            (part, pair)
            for current in HELD_OUT_FIRST
            for part, pair in zip(parts, read_pairs(corpus.src, corpus.tgt), strict=True)
            if part == current
        )
        for part, pair in in_order:
            is_kept = not any(held_out.matches(*pair)) if part == "train" else held_out.add(*pair)
            if is_kept:
                write(part, pair)
            else:
                counts["duplicates"] += 1
    for part in PARTS:
        if not counts[part]:
            src, tgt = corpus.src, corpus.tgt
            raise DataError(
                f"{src} and {tgt}: no pair is left for {part}, since {counts['duplicates']:,} pairs "
                f"have a side that is in valid or test; give text with more different lines, or {GIVE_HELD_OUT}"
            )
    return dict(counts)
