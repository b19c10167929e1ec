"""From two text files to a recipe and to a system: languages, split, findings, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.errors import UsageError
from mtkit.export.hub_classes import hub_class
from mtkit.recipe.recipe import load_recipe

ROOT = Path(__file__).parents[3]
LINES = {side: (ROOT / "data" / f"train.{side}").read_text().split("\n")[:500] for side in ("en", "de")}
TINY = (
    "model={d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}",
    "training={max_updates: 2, precision: float32, validation: {sentences: 4}}",
    "search={beam_size: 1, max_length: {factor: 0, offset: 5}}",
)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path, "news", 0, 400)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, name: str, start: int, end: int) -> None:
    for side, lines in LINES.items():
        (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines[start:end]))


def pairs(folder: Path, part: str) -> list[tuple[str, str]]:
    src, tgt = ((folder / f"{part}.{side}").read_text().split("\n")[:-1] for side in ("en", "de"))
    return list(zip(src, tgt, strict=True))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def execute(*words: str) -> tuple[int, str]:
        code = entry.execute(words)
        captured = capsys.readouterr()
        return code, captured.err if code else captured.out

    return execute


def test_an_exportable_recipe_says_its_cost(run: Run, folder: Path) -> None:
    _, usual = run("new", "news.en", "news.de")
    code, out = run("new", "news.en", "news.de", "-o", "other.yaml", "--exportable")
    assert code == 0
    assert "1.9 after six" in out
    assert "1.9 after six" not in usual
    assert hub_class(load_recipe("other.yaml").model).name == "PegasusForConditionalGeneration"
    with pytest.raises(UsageError, match="kind: rope: not supported by Hugging Face export"):
        hub_class(load_recipe("news-en-de.yaml").model)


def test_a_recipe_with_a_split_without_overlap(run: Run, folder: Path) -> None:
    code, out = run("new", "news.en", "news.de")
    assert code == 0
    assert "next: mtkit run news-en-de.yaml" in out
    recipe = load_recipe("news-en-de.yaml")
    assert (recipe.name, recipe.corpus.src_lang, recipe.corpus.tgt_lang) == ("news-en-de", "en", "de")
    assert recipe.chosen
    text = Path("news-en-de.yaml").read_text()
    assert f"#   tokenizer.vocab_size {recipe.tokenizer.vocab_size}" in text.replace(",", "")
    parts = {part: pairs(folder / "news-en-de-data", part) for part in ("train", "valid", "test")}
    assert len(parts["valid"]) == 20  # 5%
    assert f"train {len(parts['train']):,}, valid 20, test {len(parts['test'])} pairs" in out
    for side in (0, 1):
        sets = [{pair[side] for pair in parts[part]} for part in parts]
        assert len(set().union(*sets)) == sum(map(len, sets))
    originals = [pair for part in parts.values() for pair in part]
    assert set(originals) <= set(zip(LINES["en"], LINES["de"], strict=True))


def test_added_lines_never_move_old_ones_between_parts(run: Run, folder: Path) -> None:
    run("new", "news.en", "news.de")
    data = folder / "news-en-de-data"
    before = {part: set(pairs(data, part)) for part in ("train", "valid", "test")}
    write(folder, "news", 0, 500)
    lines = (folder / "news.en").read_text(), (folder / "news.de").read_text()
    (folder / "news.en").write_text("An added first line .\n" + lines[0])
    (folder / "news.de").write_text("Eine neue erste Zeile .\n" + lines[1])
    assert run("run", "news.en", "news.de", *TINY)[0] == 0
    after = {part: set(pairs(data, part)) for part in ("train", "valid", "test")}
    assert before["valid"] <= after["valid"]
    assert before["test"] <= after["test"]
    assert before["train"] & (after["valid"] | after["test"]) == set()
    assert len(after["train"]) > len(before["train"])


def test_two_files_in_a_system_and_its_score_out_and_again(run: Run, folder: Path) -> None:
    code, out = run("run", "news.en", "news.de", *TINY)
    assert code == 0
    assert "test: BLEU " in out
    assert "bleu" in json.loads((folder / "runs/news-en-de/report.json").read_text())["test"]["test"]
    assert "training is already finished" in run("run", "news.en", "news.de", *TINY)[1]


@pytest.mark.whole
@pytest.mark.parametrize("option", ["", "--dry-run", "--run-dir=other"])
def test_text_that_grew_leaves_a_started_training_and_its_split_alone(run: Run, folder: Path, option: str) -> None:
    run("run", "news.en", "news.de", *TINY)
    trained_with = pairs(folder / "news-en-de-data", "train")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write(folder, "news", 0, 500)
    options = [option] if option else []
    code, message = run("run", "news.en", "news.de", *TINY, *options)
    assert code == 78
    assert "news.en and " in message
    assert "changed since the training in " in message
    assert "--fresh" in message
    grown = {folder / "news.en", folder / "news.de"}
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path not in grown} == {
        path: content for path, content in before.items() if path not in grown
    }
    assert "training is already finished" in run("run", "news-en-de.yaml", *TINY)[1]
    assert run("run", "news.en", "news.de", *TINY, "--fresh")[0] == 0
    assert set(trained_with) < set(pairs(folder / "news-en-de-data", "train"))


def test_documents_stay_together(run: Run, folder: Path) -> None:
    (folder / "ids").write_text("".join(f"{number // 5}\n" for number in range(400)))
    assert run("new", "news.en", "news.de", "--docid", "ids")[0] == 0
    document = {pair: n // 5 for n, pair in enumerate(zip(LINES["en"][:400], LINES["de"][:400], strict=True))}
    parts = {part: {document[pair] for pair in pairs(folder / "news-en-de-data", part)} for part in ("valid", "test")}
    assert parts["valid"]
    assert not parts["valid"] & parts["test"]
    train = {document[pair] for pair in pairs(folder / "news-en-de-data", "train")}
    assert not train & (parts["valid"] | parts["test"])


def test_given_valid_and_test_sets_are_kept_out_of_train(run: Run, folder: Path) -> None:
    write(folder, "valid", 390, 410)
    write(folder, "test", 450, 460)
    options = ("--valid", "valid.en", "valid.de", "--test", "test.en", "test.de")
    code, out = run("new", "news.en", "news.de", *options)
    assert code == 0
    data = folder / "news-en-de-data"
    assert len(pairs(data, "valid")) == 20
    assert len(pairs(data, "test")) == 10
    assert not {src for src, _ in pairs(data, "train")} & set(LINES["en"][390:410])
    assert "left out, since a side is in valid or test" in out


def test_findings(run: Run, folder: Path) -> None:
    with (folder / "news.en").open("a") as src, (folder / "news.de").open("a") as tgt:
        src.write(f"\nthe same on both sides\n{LINES['en'][0]}\n{'word ' * 60}\n")
        tgt.write(f"nothing here\nthe same on both sides\n{LINES['de'][0]}\nWort\n")
    out = run("new", "news.en", "news.de")[1]
    assert "404 pairs, the longest line has 300 characters" in out
    assert "1 pair with an empty side" in out
    assert "1 pair whose two sides are equal" in out
    assert "1 pair whose lengths differ 4 times more than usual" in out
    assert " found more than once" in out


def refusal(run: Run, *words: str) -> tuple[int, str]:
    code, message = run(*words)
    assert message.count("\n") == 1
    assert not list(Path().glob("*.yaml"))
    return code, message


def test_the_same_text_twice(run: Run, folder: Path) -> None:
    (folder / "copy.de").write_bytes((folder / "news.en").read_bytes())
    for other in ("news.en", "copy.de"):
        code, message = refusal(run, "new", "news.en", other)
        assert code == 65
        assert "the same text twice" in message


def test_unequal_lengths_and_missing_files(run: Run, folder: Path) -> None:
    (folder / "ids").write_text("a\n")
    code, message = refusal(run, "new", "news.en", "news.de", "--docid", "ids")
    assert (code, "ids: 1 line, but news.en has 400" in message) == (65, True)
    (folder / "ids").write_text("a\n" * 200 + "\n" + "b\n" * 199)
    code, message = refusal(run, "new", "news.en", "news.de", "--docid", "ids")
    assert (code, "ids:201: blank; write the name of a document on each line" in message) == (65, True)
    assert refusal(run, "new", "news.en", "none.de")[0] == 66
    with (folder / "news.de").open("a") as file:
        file.write("one more\n")
    code, message = refusal(run, "run", "news.en", "news.de")
    assert (code, "line has no partner" in message) == (65, True)


def test_too_few_lines_to_split(run: Run, folder: Path) -> None:
    write(folder, "few", 0, 30)
    for command in ("new", "run"):  # both have these options
        code, message = refusal(run, command, "few.en", "few.de")
        assert code == 65
        assert "are too few to hold valid and test sets out; give files for them: --valid" in message


def test_an_existing_recipe_is_not_replaced(run: Run, folder: Path) -> None:
    (folder / "mine.yaml").write_text("important")
    code, message = run("new", "news.en", "news.de", "-o", "mine.yaml")
    assert (code, "mine.yaml: exists" in message) == (2, True)
    assert (folder / "mine.yaml").read_text() == "important"


def test_the_split_of_other_files_is_not_replaced(run: Run, folder: Path) -> None:
    run("new", "news.en", "news.de", "-o", "mine.yaml")
    (folder / "mine.yaml").unlink()
    write(folder, "other", 0, 300)
    code, message = run("new", "other.en", "other.de", "-o", "mine.yaml")
    assert (code, f"mine-data: holds the split of {folder / 'news.en'} and" in message) == (2, True)
    assert "mtkit new SRC TGT -o OTHER.yaml" in message


def test_languages_from_the_text(run: Run, folder: Path) -> None:
    pytest.importorskip("py3langid")
    for side in ("en", "de"):
        (folder / f"text{side}.dat").write_bytes((folder / f"news.{side}").read_bytes())
    code, out = run("new", "texten.dat", "textde.dat", "-o", "guessed.yaml")
    assert code == 0
    assert "texten.dat: en (text)" in out
    recipe = load_recipe("guessed.yaml")
    assert (recipe.corpus.src_lang, recipe.corpus.tgt_lang) == ("en", "de")


def test_swapped_files_and_one_language_twice(run: Run, folder: Path) -> None:
    pytest.importorskip("py3langid")
    (folder / "x.de").write_bytes((folder / "news.en").read_bytes())
    (folder / "x.en").write_bytes((folder / "news.de").read_bytes())
    code, message = refusal(run, "new", "x.en", "x.de")
    assert (code, "the other way round than by their names; swapped?" in message) == (65, True)
    (folder / "y.de").write_text("".join(f"{line}\n" for line in LINES["en"][100:500]))
    code, message = refusal(run, "new", "news.en", "y.de")
    assert (code, "both seem to be in en" in message) == (65, True)
    assert run("new", "news.en", "y.de", "--src-lang", "en", "--tgt-lang", "de")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--valid", "v.de", "v.en"], "v.de v.en: looks like de and en, but the corpus is en and de; exchange the two"),
        (["--test", "v.en", "x/../v.en"], "--test v.en x/../v.en: the same text twice"),
        (["--valid", "v.en", "v.de", "--test", "copy.en", "v.de"], "--valid v.en and --test copy.en: the same text; "),
        (["--valid", "v.en", "news.de"], "line has no partner"),
    ],
)
def test_wrong_held_out_files(run: Run, folder: Path, words: list[str], message: str) -> None:
    pytest.importorskip("py3langid")
    write(folder, "v", 400, 430)
    (folder / "x").mkdir()
    (folder / "copy.en").write_bytes((folder / "v.en").read_bytes())
    code, out = refusal(run, "new", "news.en", "news.de", *words)
    assert (code, message in out) == (65, True), out


def test_an_unknown_language(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.text.language.can_classify", lambda: False)
    (folder / "x").write_bytes((folder / "news.en").read_bytes())
    code, message = refusal(run, "new", "x", "news.de")
    assert (code, "x: language unknown; state it with mtkit new --src-lang CODE" in message) == (2, True)


@pytest.mark.parametrize("recipe", ["quickstart", "other.yaml"])
def test_a_recipe_with_a_word_after_it_is_not_taken_for_two_texts(run: Run, folder: Path, recipe: str) -> None:
    (folder / "other.yaml").write_text((ROOT / "recipes" / "quickstart.yaml").read_text())
    code, message = run("run", recipe, "nonsense")
    assert code == 78
    assert "key=value" in message


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["news.en"], 2, "news.en: not a recipe (.yaml); for text give two files: mtkit run SRC TGT"),
        (["news.en", "training.seed=2"], 2, "news.en: not a recipe (.yaml)"),
        (["news.en", "news.de", "news.de"], 2, "news.de: a third text; for a test set of your own: mtkit run news.en"),
        (["news.en", "news.de", "training.max_updates=abc"], 78, "training.max_updates: 'abc' is not an integer"),
        (["news.en", "news.de", "modle.d_model=8"], 78, "modle: no such key"),
        (
            ["news.en", "news.de", "training.max_updates=5", "--budget", "30m"],
            2,
            "--budget 30m and training.max_updates=5 contradict each other; give one of them",
        ),
        (["quickstart", "defaults=fixed", "--budget", "1h"], 2, "--budget 1h and defaults=fixed contradict each other"),
    ],
)
def test_nothing_is_written_for_a_wrong_command(
    run: Run, folder: Path, words: list[str], code: int, message: str
) -> None:
    before = sorted(folder.iterdir())
    ended, out = run("run", *words, "--dry-run")
    assert (ended, message in out) == (code, True), out
    assert sorted(folder.iterdir()) == before


def test_a_recipe_that_run_would_take_for_a_text(run: Run, folder: Path) -> None:
    code, message = refusal(run, "new", "news.en", "news.de", "-o", "x/mine.txt")
    assert (code, "the name of a recipe ends in .yaml; give -o x/mine.txt.yaml" in message) == (2, True)


@pytest.mark.whole
def test_run_takes_the_options_of_new(run: Run, folder: Path) -> None:
    written = []
    for command, options in (("new", []), ("run", ["--dry-run"])):
        words = ["news.en", "news.de", "--src-lang", "en", "--tgt-lang", "de", "-o", f"by-{command}.yaml"]
        assert run(command, *words, *options)[0] == 0
        written.append((folder / f"by-{command}.yaml").read_text().replace(f"by-{command}", "NAME"))
    assert written[0] == written[1]
    code, message = run("run", "by-new.yaml", "--src-lang", "en")
    assert (code, "--output to --mono are of texts; by-new.yaml is a recipe" in message) == (2, True)


def test_a_folder_is_no_recipe(run: Run, folder: Path) -> None:
    code, message = run("new", "news.en", "news.de", "-o", ".")
    assert (code, ".: a folder; name the recipe's file with -o, such as recipe.yaml" in message) == (2, True)
