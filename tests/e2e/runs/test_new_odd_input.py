"""Odd input of `mtkit new` and `mtkit run SRC TGT`: files of the user in the way, odd names, texts without a split."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.recipe.recipe import load_recipe

ROOT = Path(__file__).parents[3]
LINES = {side: (ROOT / "data" / f"train.{side}").read_text().split("\n")[:400] for side in ("en", "de")}


@pytest.fixture(autouse=True)
def _texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("news")


def write(name: str, lines: dict[str, list[str]] = LINES) -> None:
    for side, text in lines.items():
        Path(f"{name}.{side}").write_text("".join(f"{line}\n" for line in text))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    def execute(*words: str) -> tuple[int, str]:
        code = entry.execute(words)
        captured = capsys.readouterr()
        return code, captured.err if code else captured.out

    return execute


def test_a_folder_or_file_of_the_user_is_not_replaced_by_the_split(run) -> None:  # type: ignore[no-untyped-def]
    precious = Path("mine-data/notes.txt")
    precious.parent.mkdir()
    precious.write_text("a year of work")
    code, message = run("new", "news.en", "news.de", "-o", "mine.yaml")
    expected = "mine-data: exists and is no split of mtkit; write the recipe of these texts elsewhere"
    assert (code, expected in message) == (2, True)
    assert precious.read_text() == "a year of work"
    Path("file-data").write_text("also precious")
    assert run("new", "news.en", "news.de", "-o", "file.yaml")[0] == 2
    assert Path("file-data").read_text() == "also precious"
    assert not list(Path().glob("*.yaml"))


@pytest.mark.parametrize("is_longer", [False, True])
def test_files_of_the_split_that_the_user_edited_or_added_are_not_replaced(run, is_longer: bool) -> None:  # type: ignore[no-untyped-def]
    assert run("new", "news.en", "news.de", "-o", "mine.yaml")[0] == 0
    if is_longer:
        write("news", {side: [*text, "1 2 3 4 5 6 7 8 9"] for side, text in LINES.items()})
    Path("mine.yaml").unlink()
    test = Path("mine-data/test.de")
    original = test.read_text()
    test.write_text(corrected := original.replace("e", "é"))
    code, message = run("new", "news.en", "news.de", "-o", "mine.yaml")
    assert (code, "mine-data/test.de: changed since mtkit wrote it; delete it" in message) == (65, True)
    assert test.read_text() == corrected
    test.unlink()
    notes = Path("mine-data/notes.txt")
    notes.write_text("precious")
    code, message = run("new", "news.en", "news.de", "-o", "mine.yaml")
    assert (code, "mine-data/notes.txt: not written by mtkit; move it away" in message) == (2, True)
    notes.unlink()
    assert run("new", "news.en", "news.de", "-o", "mine.yaml")[0] == 0
    assert test.read_text() == original


def test_a_text_whose_pairs_are_all_held_out(run) -> None:  # type: ignore[no-untyped-def]
    write("same", {"en": LINES["en"], "de": [LINES["de"][0]] * 400})
    code, message = run("new", "same.en", "same.de")
    assert (code, "no pair is left for train" in message) == (65, True)
    write("again", {side: [*text, "one more"] for side, text in LINES.items()})
    words = ("--valid", "news.en", "news.de", "--test", "again.en", "again.de")
    code, message = run("new", "news.en", "news.de", "-o", "mine.yaml", *words)
    assert (code, "no pair is left for train" in message) == (65, True)
    assert not list(Path().glob("*.yaml")) + list(Path().glob("*-data"))


def test_a_single_pair_many_times_names_no_option_that_was_not_given(run) -> None:  # type: ignore[no-untyped-def]
    write("same", {side: [text[0]] * 400 for side, text in LINES.items()})
    code, message = run("new", "same.en", "same.de")
    assert (code, "too few different pairs" in message, "--docid" in message) == (65, True, False)


def test_empty_files_are_named_as_such(run) -> None:  # type: ignore[no-untyped-def]
    write("empty", {"en": [], "de": []})
    code, message = run("new", "empty.en", "empty.de")
    assert (code, "empty.en: empty" in message) == (65, True)


@pytest.mark.parametrize("code", ["", "12", "e n", "../../x", "<de>", "de\nname: x", "null"])
def test_codes_that_are_no_languages(run, code: str) -> None:  # type: ignore[no-untyped-def]
    for option in ("--src-lang", "--tgt-lang"):
        exit_code, message = run("new", "news.en", "news.de", option, code)
        assert (exit_code, message.count("\n")) == (2, 1)
        assert f"{option} {code!r}: not a language code, such as de or zh-CN" in message
    assert not list(Path().glob("*.yaml")) + list(Path().glob("*-data"))


def test_equal_codes_would_name_one_file_for_both_sides(run) -> None:  # type: ignore[no-untyped-def]
    for other in ("en", "EN"):
        code, message = run("new", "news.en", "news.de", "--src-lang", "en", "--tgt-lang", other)
        assert code == 2
        assert f"--src-lang en --tgt-lang {other}: the files of the two sides are named by their codes; give" in message
    assert not list(Path().glob("*.yaml")) + list(Path().glob("*-data"))
    assert run("new", "news.en", "news.de", "-o", "a.yaml", "--src-lang", "en", "--tgt-lang", "en-simple")[0] == 0


@pytest.mark.parametrize("code", ["no", "zh-CN", "sr_Latn", "yue"])
def test_codes_that_are_languages(run, code: str) -> None:  # type: ignore[no-untyped-def]
    assert run("new", "news.en", "news.de", "-o", "mine.yaml", "--src-lang", code)[0] == 0
    assert load_recipe("mine.yaml").corpus.src_lang == code


@pytest.mark.whole
@pytest.mark.parametrize("stem", ["a\nname: b", "a=b c", "-x", 'it\'s "q"', "a\x85b\u2028c", "\U0001d49c", "\udcff"])
def test_names_of_files(run, stem: str) -> None:  # type: ignore[no-untyped-def]
    write(f"./{stem}")
    sources = (f"./{stem}.en", f"./{stem}.de")
    assert run("new", *sources)[0] == 0
    Path(next(Path().glob("*.yaml"))).unlink()
    code, out = run("new", *sources, "-o", f"{stem}.yaml")
    assert code == 0
    recipe = load_recipe(f"{stem}.yaml")
    assert recipe.corpus.root is not None
    assert (recipe.corpus.root / "train.en").is_file()
    words = shlex.split(out.partition("next: ")[2])
    assert words[:2] == ["mtkit", "run"]
    if stem.isprintable():
        assert Path(words[2]) == Path(f"{stem}.yaml")
        assert not words[2].startswith("-")


@pytest.mark.whole
def test_a_translation_with_an_equals_sign_in_its_name_is_no_override(run) -> None:  # type: ignore[no-untyped-def]
    Path("a=b.de").write_bytes(Path("news.de").read_bytes())
    assert run("run", "news.en", "a=b.de", "--dry-run")[0] == 0
    assert Path("news-en-de.yaml").is_file()


def test_nothing_is_written_before_a_wrong_budget_is_named(run) -> None:  # type: ignore[no-untyped-def]
    code, message = run("run", "news.en", "news.de", "--budget", "1s")
    assert (code, message.count("\n")) == (2, 1)
    assert not list(Path().glob("*.yaml")) + list(Path().glob("*-data"))


def test_a_folder_of_weights_whose_name_is_not_utf8_is_refused_before_the_training(run) -> None:  # type: ignore[no-untyped-def]
    for words in (("run", "quickstart", "--run-dir", "r\udcfe"), ("translate", "r\udcfe", "news.en")):
        code, message = run(*words)
        assert (code, message.count("\n")) == (2, 1)
        assert "the name of this folder is not UTF-8" in message


def test_languages_that_are_stated_the_wrong_way_round(run) -> None:  # type: ignore[no-untyped-def]
    code, message = run("new", "news.de", "news.en", "--src-lang", "en", "--tgt-lang", "de")
    assert code == 65
    assert "news.de looks like de and news.en like en, the other way round than --src-lang and --tgt-lang" in message
    assert not list(Path().glob("*.yaml"))
    code, out = run("new", "news.en", "news.de", "--src-lang", "en", "--tgt-lang", "fr")
    assert code == 0
    assert "the text of news.de looks like de, not fr; check the file, or --tgt-lang\n" in out


def test_the_recipe_says_how_it_was_written_and_that_pairs_are_few(run) -> None:  # type: ignore[no-untyped-def]
    Path("ids").write_text("".join(f"{number // 5}\n" for number in range(400)))
    code, out = run("new", "news.en", "news.de", "-o", "mine.yaml", "--docid", "ids")
    assert code == 0
    assert Path("mine.yaml").read_text().startswith("# Written by mtkit new news.en news.de --docid ids\n")
    assert "pairs to learn from; expect poor translations of other text" in out
