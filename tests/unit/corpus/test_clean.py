"""`mtkit clean`: each filter on a generator of its fault, with clean text beside it, and what happens to the lines."""

from __future__ import annotations

import errno
import gzip
import json
import random
import re
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtkit.config import construct
from mtkit.corpus import clean
from mtkit.corpus.clean import CleanReport, TextCleaner
from mtkit.corpus.filters.config import (
    CharacterFilterConfig,
    CopyFilterConfig,
    CrossEntropyFilterConfig,
    DuplicateFilterConfig,
    FilterConfig,
    LexiconFilterConfig,
    NearDuplicateFilterConfig,
    NumberFilterConfig,
    default_filters,
)
from mtkit.corpus.filters.filter import Context, PairBlock
from mtkit.corpus.lenient_reading import ParallelInput
from mtkit.corpus.near_match import HeldOutText
from mtkit.corpus.text_check import TextCheck
from mtkit.errors import DataError, MtkitError, ReadWriteError, UsageError
from mtkit.io.shards import Shard
from mtkit.pipeline import clean_text
from mtkit.pipeline.clean_text import clean_files
from mtkit.translate.ray_pool import RayCluster
from tests.toy.sampling import seeds
from tests.unit.corpus.test_text_check import LINES, encoded, french, passage

Pair = tuple[bytes, bytes]
HELD_OUT = "the committee met again on thursday", "der Ausschuss tagte am Donnerstag erneut"


def long_line(rng: random.Random, src: str, tgt: str) -> Pair:
    return " ".join(rng.choices(LINES["train"][0], k=200)).encode(), tgt.encode()


def decoded_wrongly(rng: random.Random, src: str, tgt: str) -> Pair:
    bad = rng.choice(["sch\u00c3\u00b6n", "l\u00f6schen\ufffd", "\x1b[0m", "\ue123", "\x00"])
    return f"{src} {bad}".encode(), tgt.encode()


def other_script(rng: random.Random, src: str, tgt: str) -> Pair:
    words = ["собака", "быстро", "бежит", "через", "старый", "город", "вечером", "домой"]
    return src.encode(), " ".join(rng.sample(words, 6)).encode()


def repetition(rng: random.Random, src: str, tgt: str) -> Pair:
    return src.encode(), f"{tgt} {'und dann ' * rng.randint(20, 40)}".encode()


def near_copy(rng: random.Random, src: str, tgt: str) -> Pair:
    src, tgt = max(zip(*LINES["test"], strict=True), key=lambda pair: len(pair[0]))
    return f"{src} {''.join(rng.choices('.,;!?', k=12))}".upper().encode(), tgt.encode()


FAULTS: dict[str, Callable[[random.Random, str, str], Pair]] = {
    "empty": lambda rng, src, tgt: (src.encode(), rng.choice([b"", b"  ", b"\r"])),
    "length": long_line,
    "odd_lengths": lambda rng, src, tgt: (f"{src} {src} {src} {src} {src} {src}".encode(), tgt[:12].encode()),
    "characters": decoded_wrongly,
    "copies": lambda rng, src, tgt: (src.encode(), rng.choice([src, src.upper(), f" {src}"]).encode()),
    "repeated": repetition,
    "script": other_script,
    "language": lambda rng, src, tgt: (src.encode(), french(rng)[0].encode()),
    "leak": lambda rng, src, tgt: (HELD_OUT[0].title().encode(), f"{tgt} {rng.random()}".encode()),
    "duplicates": lambda rng, src, tgt: (LINES["test"][0][0].encode(), LINES["test"][1][0].encode()),
    "near_duplicates": near_copy,
    "markup": lambda rng, src, tgt: (f"{rng.choice(['<b>', '<br/>', '&nbsp;', '<!--'])} {src}".encode(), tgt.encode()),
    "numbers": lambda rng, src, tgt: (f"{src} {rng.randint(10, 4999)}".encode(), f"{tgt} 5000".encode()),
    "urls": lambda rng, src, tgt: (f"{src} https://a.b/{rng.random()}".encode(), tgt.encode()),
}


def write(folder: Path, pairs: Sequence[Pair]) -> tuple[Path, Path]:
    paths = folder / "a.en", folder / "a.de"
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_bytes(b"".join(line + b"\n" for line in side))
    return paths


def run(
    folder: Path, pairs: Sequence[Pair], filters: Sequence[FilterConfig] | None = None, test: HeldOutText | None = None
) -> CleanReport:
    output = folder / "clean"
    output.mkdir()
    text = ParallelInput.of_files(*write(folder, pairs))
    cleaner = TextCleaner(text, default_filters() if filters is None else filters, Context(held_out=test))
    return cleaner.write(cleaner.judge(), output)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def require_all_lines(folder: Path, pairs: Sequence[Pair]) -> None:
    """Each line is kept or rejected, byte for byte and in order."""
    kept = iter(
        list(zip(*((folder / "clean" / n).read_bytes().split(b"\n")[:-1] for n in ("a.en", "a.de")), strict=True))
    )
    rejected = {each["line"]: each for each in json_lines(folder / "clean" / "rejected.jsonl")}
    for number, pair in enumerate(pairs, start=1):
        if (each := rejected.get(number)) is None:
            assert next(kept) == pair
        else:
            assert tuple(each[side].encode(errors="surrogateescape") for side in ("src", "tgt")) == pair
            assert each["reasons"]
    assert next(kept, None) is None


def test_each_filter_has_a_generator() -> None:
    """Noise for the lexicon, which needs a whole text, is in a test of its own."""
    assert {each.kind for each in default_filters()} == {*FAULTS, "lexicon"}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", seeds(3, slow=40))
def test_each_fault_is_found_and_nothing_else(fault: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{fault} {seed}")
    src, tgt = passage(rng)
    if src[0] not in LINES["train"][0]:
        src, tgt = tgt, src
    unique = dict.fromkeys(zip(src, tgt, strict=True))
    pairs = [tuple(line.encode() for line in pair) for pair in unique]
    faulty = set(rng.sample(range(1, len(pairs)), 8))
    for number in faulty:
        pairs[number] = FAULTS[fault](rng, *(line.decode() for line in pairs[number]))
    report = run(tmp_path, pairs, test=HeldOutText([HELD_OUT]))
    require_all_lines(tmp_path, pairs)
    (result,) = [each for each in report.filters if each.kind == fault]
    first = {min(faulty)} if fault in ("duplicates", "near_duplicates") else set()
    assert {int(place.rpartition(":")[2]) - 1 for place in result.places} == faulty - first
    assert result.count == len(faulty - first)
    removed = {each["line"] - 1 for each in json_lines(tmp_path / "clean" / "rejected.jsonl")}
    assert removed <= faulty
    if result.weight == 0:
        assert removed == faulty - first
    flagged = {each["of"] - 1: each["reasons"] for each in json_lines(tmp_path / "clean" / "flagged.jsonl")}
    assert set(flagged) == (faulty - first - removed)
    assert all(line.isprintable() for line in report.lines())


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("seed", seeds(2, slow=20))
def test_lines_that_are_no_translations(share: float, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    pairs = list(zip(*map(encoded, LINES["train"]), strict=True))[:5000]
    noise = rng.sample(range(len(pairs)), int(share * len(pairs)))
    for number, other in zip(noise, rng.sample(noise, len(noise)), strict=True):
        pairs[number] = pairs[number][0], LINES["train"][1][other].encode()
    report = run(tmp_path, pairs, [LexiconFilterConfig()])
    found = {each["line"] - 1 for each in json_lines(tmp_path / "clean" / "rejected.jsonl")}
    assert len(found - set(noise)) <= 0.01 * len(pairs)
    assert len(found & set(noise)) >= 0.8 * len(noise)
    assert report.removed == len(found)


@pytest.mark.parametrize("seed", seeds(2, slow=20))
def test_small_texts_lose_nothing_by_their_lexicon(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 3000)
    pairs = rng.sample(list(zip(*map(encoded, LINES["train"]), strict=True)), count)
    assert run(tmp_path, pairs, [LexiconFilterConfig()]).removed <= 0.005 * count


def test_check_names_what_clean_finds(tmp_path: Path) -> None:
    rng = random.Random(1)
    pairs = list(zip(*map(encoded, LINES["test"]), strict=True))
    for kind in ("empty", "copies", "repeated", "markup", "numbers", "urls", "duplicates", "odd_lengths"):
        number = rng.randrange(1, len(pairs))
        pairs[number] = FAULTS[kind](rng, *(line.decode() for line in pairs[number]))
    cleaned = {each.kind: each.places for each in run(tmp_path, pairs).filters}
    checked = {
        each.kind: each.places
        for each in TextCheck(ParallelInput.of_files(tmp_path / "a.en", tmp_path / "a.de"))().findings
    }
    kinds = set(cleaned) & set(checked)
    assert kinds >= {"empty", "copies", "repeated", "markup", "numbers", "urls", "duplicates", "odd_lengths"}
    assert {kind: cleaned[kind] for kind in kinds} == {kind: checked[kind] for kind in kinds}


def test_of_equal_pairs_one_that_is_kept_remains(tmp_path: Path) -> None:
    pairs = [(b"one two three four", b"one two three four")] * 3 + [(b"five six", "fünf sechs".encode())] * 3
    report = run(tmp_path, pairs, [DuplicateFilterConfig(), CopyFilterConfig()])
    assert report.removed == 5
    assert (tmp_path / "clean" / "a.en").read_bytes() == b"five six\n"
    found = {each.kind: (each.count, each.alone) for each in report.filters}
    assert found == {"copies": (3, 3), "duplicates": (2, 2)}


def test_a_pair_with_one_fault_on_both_sides_is_named_once(tmp_path: Path) -> None:
    pairs = [(b"one \x01\xef\xbf\xbd", b"eins \x01"), (b"two", b"zwei")]
    (result,) = run(tmp_path, pairs, [CharacterFilterConfig()]).filters
    assert (result.count, result.places) == (1, [f"{tmp_path / 'a.en'}:1"])


def test_inputs_named_like_the_files_of_the_result(tmp_path: Path) -> None:
    paths = tmp_path / "a.txt", tmp_path / "report.json.gz"
    for path in paths:
        path.write_bytes(b"one\n\n")
    clean_files(paths, (None, None), [], tmp_path / "clean", print)
    assert (tmp_path / "clean" / "a.txt.src").read_bytes() == b"one\n"
    assert (tmp_path / "clean" / "report.json.tgt").read_bytes() == b"one\n"
    assert [each["line"] for each in json_lines(tmp_path / "clean" / "rejected.jsonl")] == [2]


def test_weights_of_lines(tmp_path: Path) -> None:
    pairs = [(b"in 1987", b"im Jahr 1978"), (b"in 1987", b"im Jahr 1987"), (b"one two three", b"one two three")]
    report = run(tmp_path, [*pairs, pairs[1]], [NumberFilterConfig(weight=0.25), CopyFilterConfig(weight=0.5)])
    assert report.train == [  # each line is drawn in proportion to its weight
        {"src": "a.en", "tgt": "a.de", "weight": 2},
        {"src": "weight-0.5/a.en", "tgt": "weight-0.5/a.de", "weight": 0.5},
        {"src": "weight-0.25/a.en", "tgt": "weight-0.25/a.de", "weight": 0.25},
    ]
    assert all((tmp_path / "clean" / each[side]).is_file() for each in report.train for side in ("src", "tgt"))
    assert (tmp_path / "clean" / "a.de").read_bytes() == b"im Jahr 1987\nim Jahr 1987\n"
    assert (tmp_path / "clean" / "weight-0.5" / "a.de").read_bytes() == b"one two three\n"
    assert "{src: weight-0.5/a.en, tgt: weight-0.5/a.de, weight: 0.5}" in report.lines()[-1]


@pytest.mark.parametrize("size", [1.0, 0.99, 0.9, 0.5])
def test_near_duplicates_by_similarity(size: float) -> None:
    """Texts of which this share of the words is equal: found if the similarity is surely above 0.9."""
    rng = np.random.default_rng(1)
    words = [f"w{number}" for number in range(5000)]
    lines = [" ".join(rng.choice(words, 100)) for _ in range(200)]
    others = []
    for line in lines:
        tokens = line.split()
        cut = int(len(tokens) * size)
        others.append(" ".join([*tokens[:cut], *rng.choice(words, len(tokens) - cut)]))
    near = construct(NearDuplicateFilterConfig())
    block = PairBlock(np.arange(400), [(line, line) for line in lines + others])
    assert list(near.find(block)) == []
    late = near.find_late(np.ones(400, dtype=bool))
    assert (late >= 200).all()
    assert len(late) >= 190 if size > 0.95 else len(late) <= 100 if size > 0.8 else len(late) == 0


def test_pairs_that_models_find_improbable() -> None:
    config = CrossEntropyFilterConfig(forward=Path("forward"), backward=Path("backward"))
    nats = {("forward", "good"): 1.0, ("backward", "gut"): 1.2, ("forward", "bad"): 5.0, ("backward", "los"): 1.0}

    def cross_entropies(model: Path, src: Sequence[str], tgt: Sequence[str]) -> list[float]:
        return [nats[model.name, line] for line in src]

    detector = construct(config)
    block = PairBlock(np.arange(2), [("good", "gut"), ("bad", "los")])
    detector.learn(block, Context(cross_entropies=cross_entropies))
    (fault,) = detector.find(block)
    assert (fault.row, fault.detail) == (1, "score 0.001")  # exp(-(4 + 3))


def test_compressed_and_damaged_input(tmp_path: Path) -> None:
    pairs = [(b"one\xff", b"eins"), (b"two\r", b"zwei"), (b"", b"drei"), ("vier\u0085".encode(), b"four")]
    for path in write(tmp_path, pairs):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    report = clean_files([tmp_path / "a.en.gz", tmp_path / "a.de.gz"], (None, None), [], tmp_path / "clean", print)
    require_all_lines(tmp_path, pairs)
    assert (report.pairs, report.removed) == (4, 2)


def refusal(folder: Path, kind: type[MtkitError] = DataError) -> str:
    """The sentence of a refusal, which leaves nothing beside the input."""
    with pytest.raises(kind) as error:
        clean_files([folder / "a.en", folder / "a.de"], (None, None), [], folder / "clean", print)
    assert "\n" not in str(error.value)
    assert sorted(path.name for path in folder.iterdir() if path.name not in ("clean",)) == ["a.de", "a.en"]
    return str(error.value)


def test_bad_input_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, [(b"one", b"eins")] * 3)
    (tmp_path / "a.de").write_bytes(b"eins\n")
    assert re.search(r"a\.en:2: line has no partner: .*a\.de has 1 line and this file 3", refusal(tmp_path))
    (tmp_path / "a.en").write_bytes(b"one\n" * 2)
    (tmp_path / "a.de").write_bytes(b"\n\n")
    assert "all 2 pairs have faults: one side is empty (2)" in refusal(tmp_path)
    (tmp_path / "clean").mkdir()
    (tmp_path / "clean" / "mine").touch()
    assert "clean: exists; delete it, or name another folder with -o" in refusal(tmp_path, UsageError)
    assert [path.name for path in (tmp_path / "clean").iterdir()] == ["mine"]


class Cluster:
    """A cluster whose workers get copies of everything, and finish in any order."""

    def map(self, function: Any, items: Any) -> Any:
        cloudpickle = pytest.importorskip("cloudpickle")
        return (cloudpickle.loads(cloudpickle.dumps(function))(item) for item in items)


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["lines", "document"])
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_shards_and_clusters_clean_as_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, kind: str
) -> None:
    rng = random.Random(seed)
    pairs = [(src.encode(), tgt.encode()) for src, tgt in zip(*LINES["train"], strict=True)]
    for fault in FAULTS.values():
        for _ in range(6):
            row = rng.randrange(len(pairs))
            pairs.insert(row, fault(rng, *(side.decode() for side in pairs[row])))
    if kind == "lines":
        text = write(tmp_path, pairs)
    else:
        text = (tmp_path / "a.tsv",)
        rows = [[side.decode(errors="replace").replace("\0", "").strip("\r") for side in pair] for pair in pairs]
        text[0].write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows), newline="\n")
    langs = ("en", "de")
    clean_files(text, langs, [], tmp_path / "whole", lambda note: None)
    expected = folder_bytes(tmp_path / "whole")
    count = rng.randint(2, 6)
    for index in rng.sample(range(1, count + 1), count):
        if list(tmp_path.glob("*.shard-*")):
            with pytest.raises(UsageError, match="missing: --shard"):
                clean_files(text, langs, [], tmp_path / "parts", lambda note: None)
        division = clean_text.Division(Shard(index, count))
        assert clean_files(text, langs, [], tmp_path / "parts", lambda note: None, division=division) is None
    clean_files(text, langs, [], tmp_path / "parts", lambda note: None)
    assert folder_bytes(tmp_path / "parts") == expected
    monkeypatch.setattr(clean_text, "SHARD_PAIRS", 200)
    division = clean_text.Division(cluster=Cluster())  # type: ignore[arg-type]
    clean_files(text, langs, [], tmp_path / "ray", lambda note: None, division=division)
    assert folder_bytes(tmp_path / "ray") == expected
    assert not list(tmp_path.glob("*.shard-*"))


@pytest.mark.whole
def test_a_cluster_on_this_machine_cleans_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    text = write(tmp_path, [(src.encode(), tgt.encode()) for src, tgt in zip(*LINES["train"], strict=True)])
    clean_files(text, (None, None), [], tmp_path / "whole", lambda note: None)
    monkeypatch.setattr(clean_text, "SHARD_PAIRS", 300)
    save, done = clean_text._save, list[str]()

    def stop(faults: Any, files: list[Path]) -> None:
        if len(done) == 2:
            monkeypatch.setattr(clean_text, "_save", keep)
            raise KeyboardInterrupt
        keep(faults, files)

    def keep(faults: Any, files: list[Path]) -> None:
        save(faults, files)
        done.append(files[0].name)

    monkeypatch.setattr(clean_text, "_save", stop)
    division = clean_text.Division(cluster=RayCluster(None, 2))
    with pytest.raises(KeyboardInterrupt):
        clean_files(text, (None, None), [], tmp_path / "clean", lambda note: None, division=division)
    clean_files(text, (None, None), [], tmp_path / "clean", lambda note: None, division=division)
    assert len(done) == len(set(done))
    assert folder_bytes(tmp_path / "clean") == folder_bytes(tmp_path / "whole")
    assert not list(tmp_path.glob("*.shard-*"))


def test_a_file_that_changes_between_readings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [(b"one", b"eins"), (b"two", b"zwei")])
    find = TextCleaner._find

    def change(self: TextCleaner, *args: Any) -> Any:
        (tmp_path / "a.en").write_bytes(b"one\n")
        return find(self, *args)

    monkeypatch.setattr(TextCleaner, "_find", change)
    assert "changed while they were read; clean them when they are complete" in refusal(tmp_path)
    assert not (tmp_path / "clean").exists()


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [(b"one", b"eins"), (b"two", b"zwei")])

    def fail(content: dict[str, Any]) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a.de").write_bytes(b"eins\n\n")
    monkeypatch.setattr(clean, "_json_line", fail)
    sentence = refusal(tmp_path, ReadWriteError)
    assert "cannot be written: no space left on device; free some space and run" in sentence
    assert not (tmp_path / "clean").exists()


def test_long_lines_in_bounded_memory(tmp_path: Path) -> None:
    pairs = [(b"w%d " % number * 1_000_000, b"v%d " % number * 1_000_000) for number in range(4)] + [(b"one", b"eins")]
    tracemalloc.start()
    report = run(tmp_path, pairs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.removed == 4
    assert peak < 20 * sum(map(len, pairs[0] + pairs[1] + pairs[2] + pairs[3]))
