"""`mtkit check`: each kind of fault, injected at random places of the embedded corpus, and files that are no text."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from mtkit.corpus.lenient_reading import ParallelInput
from mtkit.corpus.near_match import HeldOutText
from mtkit.corpus.text_check import KINDS, CheckReport, TextCheck
from mtkit.errors import DataError
from tests.toy.sampling import seeds
from tools.benchmarks.injected_faults import FAULTS, WATCHED, Injection, check, encoded, spans

DATA = Path(__file__).parents[3] / "data"
LINES = {
    name: [(DATA / f"{name}.{side}").read_text().split("\n")[:-1] for side in ("en", "de")]
    for name in ("train", "test")
}


def french(rng: random.Random) -> list[str]:
    who = ["Mon père", "La voisine", "Cette étudiante", "Le vieux médecin", "Notre professeur", "Sa petite sœur"]
    what = ["achète du pain", "ne veut pas partir", "cherche ses clés", "a oublié le rendez-vous", "écoute la radio"]
    when = ["avant de rentrer chez elle", "parce qu'il pleut", "depuis hier soir", "chaque matin à huit heures"]
    return [f"{rng.choice(who)} {rng.choice(what)} {rng.choice(when)}." for _ in range(200)]


def passage(rng: random.Random, least: int = 400) -> tuple[list[str], list[str]]:
    size = rng.randint(least, 900)
    start = rng.randint(0, len(LINES["train"][0]) - size)
    src, tgt = (side[start : start + size] for side in LINES["train"])
    return (src, tgt) if rng.random() < 0.5 else (tgt, src)


def held_out(src: list[str]) -> list[list[str]]:
    sides = LINES["test"]
    return sides if src[0] in LINES["train"][0] else sides[::-1]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", seeds(20, slow=200))
def test_injected_faults_are_found(fault: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{fault} {seed}")
    text = passage(rng)
    inject, kinds = FAULTS[fault]
    test = held_out(text[0])
    injection = inject(rng, *text, others=[french(rng)], held_out=test)
    report = check(tmp_path, injection, test)
    found = spans(report, kinds)
    assert [each for each in found if abs(each[0] - injection.start) <= 20], (found, injection.start, report.lines())
    assert any(KINDS[kind].level == "error" for kind in kinds) <= report.num_errors
    assert all(line.isprintable() for line in report.lines())


@pytest.mark.parametrize("seed", seeds(20, slow=200))
def test_clean_text_has_no_alarms(seed: int, tmp_path: Path) -> None:
    text = passage(random.Random(seed))
    report = check(tmp_path, Injection(encoded(text[0]), encoded(text[1]), 0, 0), held_out(text[0]))
    assert [each for each in report.findings if each.kind in WATCHED or each.level == "error"] == []


@pytest.mark.parametrize("seed", [*seeds(20, slow=34), 34, 68])
def test_other_lines_have_no_translations_elsewhere(seed: int, tmp_path: Path) -> None:
    """Lines that are no translations, at the beginning or the end of a text (34 and 68 failed)."""
    rng = random.Random(seed)
    count, first = rng.randint(100, 300), rng.randint(0, 8000)
    src, tgt = (side[first : first + count] for side in LINES["train"])
    start, end = rng.choice([(0, rng.randint(8, 60)), (count - rng.randint(8, 60), count)])
    tgt[start:end] = rng.sample(LINES["train"][1], end - start)
    report = check(tmp_path, Injection(encoded(src), encoded(tgt), 0, 0), held_out(src))
    assert [each for each in report.findings if each.kind in ("moved", "shift")] == []


def check_lines(tmp_path: Path, src: bytes, tgt: bytes, test: HeldOutText | None = None) -> CheckReport:
    (tmp_path / "a.en").write_bytes(src)
    (tmp_path / "a.de").write_bytes(tgt)
    return TextCheck(ParallelInput.of_files(tmp_path / "a.en", tmp_path / "a.de"), test)()


@pytest.mark.parametrize(
    ("kind", "src", "tgt", "line"),
    [
        ("bom", "\ufeffone\ntwo", "eins\nzwei", 1),
        ("line_break", "one\ntwo\u2028three", "eins\nzwei", 2),
        ("line_break", "one\ntwo\rthree", "eins\nzwei", 2),
        ("control", "one\ntwo\x1b[0m", "eins\nzwei", 2),
        ("replacement", "one\ntwo \ufffd", "eins\nzwei", 2),
        ("mojibake", "one\ncafÃ©", "eins\nzwei", 2),
        ("repeated", "one\n" + "so on and " * 9, "eins\nzwei", 2),
        ("empty", "one\n ", "eins\nzwei", 2),
        ("copies", "one\ntwo", "eins\ntwo", 2),
        ("duplicates", "one\none", "eins\neins", 2),
        ("near_duplicates", "one more\nOne more!", "noch eins\nNoch eins.", 2),
        ("numbers", "one\nin 1987", "eins\nim Jahr 1978", 2),
        ("urls", "one\nsee https://a.b/c.", "eins\nsiehe https://a.b/d", 2),
        ("lengths", "one\ntwo\nthree", "eins\nzwei", 3),
    ],
)
def test_kinds_of_findings(kind: str, src: str, tgt: str, line: int, tmp_path: Path) -> None:
    report = check_lines(tmp_path, f"{src}\n".encode(), f"{tgt}\n".encode())
    (finding,) = [each for each in report.findings if each.kind == kind]
    assert finding.places == [f"{tmp_path / 'a.en'}:{line}"]
    assert {each.kind for each in report.findings} <= {kind, "duplicates"}


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("one\r\ntwo\r\n", "eins\nzwei"),
        ("1,000,000 of 12", "1.000.000 von 12"),
        ("at 5 pm", "um 17 Uhr"),
        ("see <https://a.b/c>", "siehe https://a.b/c."),
        ("a very very very long way", "ein sehr sehr sehr weiter Weg"),
        ("１２ days", "12 Tage"),
    ],
)
def test_what_is_usual_is_no_finding(src: str, tgt: str, tmp_path: Path) -> None:
    found = {each.kind for each in check_lines(tmp_path, src.encode(), tgt.encode()).findings}
    assert found <= ({"numbers"} if "pm" in src else set())


def test_lines_that_differ_from_the_test_set_by_a_word(tmp_path: Path) -> None:
    pairs = [("we saw a red car in the old town", "wir sahen ein rotes Auto in der alten Stadt")]
    test = HeldOutText(pairs)
    near = b"We saw a red bike in the old town!\n", b"Wir sahen ein rotes Rad in der alten Stadt!\n"
    far = b"we saw two red bikes in the old town\n", "wir sahen zwei rote Räder in der alten Stadt\n".encode()
    side = b"we saw a red car in the old  Town\n", b"etwas anderes\n"
    for text, kinds in ((near, ["leak_near"]), (far, []), (side, ["leak_side"])):
        assert [each.kind for each in check_lines(tmp_path, *text, test).findings if "leak" in each.kind] == kinds


@pytest.mark.parametrize(
    ("src", "message"),
    [
        (b"", "one is empty; give a text and its translation"),
        (b"\xef\xbb\xbf", "one is empty; give a text and its translation"),
        (bytes(range(256)) * 50, "binary, not UTF-8 text; give a text"),
        ("one\ntwo".encode("utf-16"), "iconv -f utf-16 -t utf-8"),
        (b"PK\x03\x04 and more", "a zip archive or office document, not a text"),
    ],
)
def test_files_that_are_no_text_are_refused(src: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        check_lines(tmp_path, src, b"eins\nzwei\n")


def test_long_lines_in_bounded_memory(tmp_path: Path) -> None:
    lines = b"".join(b"w%d " % number * 1_000_000 + b"\n" for number in range(3))
    tracemalloc.start()
    report = check_lines(tmp_path, lines, lines.replace(b"w", b"v"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.pairs == 3
    assert peak < 40 * len(lines)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_text("one\n" * 400_000)
    rows = ParallelInput.of_files(path, path).read(lambda *place: None)
    next(rows)
    with path.open("a") as file:
        file.write("two\n")
    with pytest.raises(DataError, match=r"a\.en: changed while it was read; check it again when it is complete"):
        list(rows)


@pytest.mark.whole
@pytest.mark.parametrize("seed", seeds(3, slow=20))
def test_many_dropped_lines_in_one_text(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    src, tgt = (side[:6000] for side in LINES["train"])
    dropped = sorted(200 * number + rng.randint(50, 150) for number in range(30))
    shorter = [line for number, line in enumerate(tgt) if number not in dropped]
    report = check(tmp_path, Injection(encoded(src), encoded(shorter), 0, 0), held_out(src))
    starts = [first for first, _ in spans(report, ("shift",))]
    distances = sorted(min(abs(start - line) for start in starts) for line in dropped)
    assert distances[len(distances) // 2] <= 5
    assert sum(each <= 20 for each in distances) >= 0.9 * len(dropped)
