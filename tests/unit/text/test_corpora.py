"""Corpora by name: each kind of index gives the same lines, once, also without a network and to two processes."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import sqlite3
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sacrebleu import dataset as sacrebleu_index
from sacrebleu.dataset.plain_text import PlainTextDataset

from mtkit.cli import entry
from mtkit.corpus.config import CorpusConfig, HeldOutDocument, TrainDocument
from mtkit.documents.pair_lines import PairLines, text_files
from mtkit.errors import DataError, MissingExtraError, MissingInputError, ReadWriteError, UsageError
from mtkit.pipeline.check_text import check_files
from mtkit.recipe.recipe import read_recipe
from mtkit.text.corpora import KINDS, NamedCorpus, named_corpus

LANGS = ("en", "de")
WORDS = ["Tür", "naïve", "a & b", "日本", "x\u2028y", "NEL\x85z", "'", "e\u0301", '"q', "C:\\t"]
Index = Callable[..., str]


def sample(seed: int, count: int = 30) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    rows = [(f"{n} {' '.join(rng.choices(WORDS, k=3))}.", f"{n} {rng.choice(WORDS)}!") for n in range(count)]
    rows[rng.randrange(count)] = ("only one side", "")
    return rows


def sides(rows: list[tuple[str, str]]) -> list[bytes]:
    return ["".join(f"{row[side]}\n" for row in rows).encode() for side in (0, 1)]


FAKE_OPUSTOOLS = """
import sqlite3
class DbOperations:
    def __init__(self, db_file):
        self.db_file = db_file
    def get_corpora(self, wanted):
        wanted["source"], wanted["target"] = sorted((wanted["source"], wanted["target"]))
        if wanted["version"] == "latest":
            wanted["latest"] = wanted.pop("version") and "True"
        where = " AND ".join(f"{key} = :{key}" for key in wanted)
        with sqlite3.connect(self.db_file) as rows:
            return [{"url": url} for url, in rows.execute(f"SELECT url FROM opusfile WHERE {where}", wanted)]
    def run_corpora_query(self, wanted):
        with sqlite3.connect(self.db_file) as rows:
            return [name for name, in rows.execute("SELECT DISTINCT corpus FROM opusfile")]
"""


@pytest.fixture
def index(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """Puts a corpus into the index of a kind, as its package has it; returns the name."""
    monkeypatch.setenv("MTKIT_DATA", str(tmp_path / "data"))
    packages, kind = tmp_path / "packages", request.param
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setenv("PYTHONPATH", str(packages))

    def sacrebleu(rows: list[tuple[str, str]], address: str | None) -> str:
        archive = tmp_path / "toy.tgz"
        with tarfile.open(archive, "w:gz") as file:
            for name, content in zip(("toy.en", "toy.de"), sides(rows), strict=True):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
        test_set = PlainTextDataset(
            "toy/test", data=[address or archive.as_uri()], langpairs={"en-de": ["toy.en", "toy.de"]}
        )
        monkeypatch.setattr(test_set, "_outdir", str(tmp_path / "sacrebleu"))
        monkeypatch.setattr(test_set, "_rawdir", str(tmp_path / "sacrebleu" / "raw"))
        monkeypatch.setitem(sacrebleu_index.DATASETS, "toy/test", test_set)
        return "sacrebleu:toy/test"

    def opus(rows: list[tuple[str, str]], address: str | None) -> str:
        archive = tmp_path / "toy.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for lang, content in zip(LANGS, sides(rows), strict=True):
                file.writestr(f"Toy.de-en.{lang}", content)
            file.writestr("LICENSE", "CC-BY\n4.0\n")
        (packages / "opustools").mkdir()
        (packages / "opustools" / "__init__.py").touch()
        (packages / "opustools" / "db_operations.py").write_text(FAKE_OPUSTOOLS)
        database = tmp_path / "index.db"
        with sqlite3.connect(database) as tables:
            tables.execute("CREATE TABLE opusfile (source, target, corpus, preprocessing, version, url, latest)")
            url = address or archive.as_uri()
            tables.execute("INSERT INTO opusfile VALUES ('de', 'en', 'Toy', 'moses', 'v1', ?, 'True')", [url])
        (packages / "opustools" / "opusdata.db.gz").write_bytes(gzip.compress(database.read_bytes()))
        for module in [name for name in sys.modules if name.startswith("opustools")]:
            monkeypatch.delitem(sys.modules, module)
        return "opus:Toy"

    def mtdata(rows: list[tuple[str, str]], address: str | None) -> str:
        (packages / "mtdata").mkdir()
        (packages / "mtdata" / "__init__.py").touch()
        text = "".join(f"{tgt}\t{src}\n" for src, tgt in rows)
        (packages / "mtdata" / "__main__.py").write_text(
            "import os, sys\nassert sys.argv[-2:] == ['echo', 'Toy-toy-1-deu-eng']\nassert os.environ['MTDATA']\n"
            f"{'' if address is None else 'sys.exit(os.sep)'}\n"
            f"sys.stdout.buffer.write({text.encode()!r})"
        )
        return "mtdata:Toy-toy-1-deu-eng"

    make = {"sacrebleu": sacrebleu, "opus": opus, "mtdata": mtdata}[kind]
    return lambda rows, address=None: make(rows, address)


def fetch(name: str, said: list[str] | None = None) -> PairLines:
    corpus = named_corpus(name, LANGS)
    assert corpus is not None
    corpus.fetch(([] if said is None else said).append)
    return PairLines(Path(name), LANGS)


every_kind = pytest.mark.parametrize("index", KINDS, indirect=True)


@pytest.mark.parametrize("seed", range(2))
@every_kind
def test_lines_of_each_kind_are_taken_once(index: Index, tmp_path: Path, seed: int) -> None:
    name, rows, said = index(sample(seed)), sample(seed), list[str]()
    src, tgt = fetch(name, said).files
    assert [src.read_bytes(), tgt.read_bytes()] == sides(rows)  # also pairs with one side: a test set keeps its lines
    assert src.is_relative_to(tmp_path / "data")
    assert any("30 lines; licence: " in note for note in said)
    for folder in ("packages", "sacrebleu"):
        shutil.rmtree(tmp_path / folder, ignore_errors=True)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(tmp_path / "data")  # copied to a machine without index or network
    assert text_files(Path(f"{name}#en,de"), pytest.fail) == [src, tgt]
    record = NamedCorpus(*name.split(":"), LANGS).record()
    assert record["licence"] == ("CC-BY 4.0" if name.startswith("opus") else None)
    assert record["address"]
    report = check_files([Path(name)], LANGS, [], pytest.fail)
    assert report.pairs == 30


@every_kind
def test_damaged_lines_are_taken_again(index: Index) -> None:
    name, rows = index(sample(3)), sample(3)
    lines = fetch(name)
    lines.files[0].write_bytes(b"other\n")
    with pytest.raises(MissingInputError, match="changed since it was downloaded; mtkit fetch"):
        lines.extract()
    fetch(name)
    lines.extract()
    assert [path.read_bytes() for path in lines.files] == sides(rows)


@every_kind
def test_without_a_network_the_folder_and_the_remedy_are_named(index: Index, tmp_path: Path) -> None:
    name = index(sample(4), "http://127.0.0.1:9/toy.zip")
    uses = ((fetch, ReadWriteError), (lambda each: PairLines(Path(each), LANGS).extract(), MissingInputError))
    for use, error in uses:
        with pytest.raises(error) as caught:
            use(name)
        said = str(caught.value)
        assert f"mtkit fetch '{name}#en,de' downloads it, also on another machine: copy {tmp_path / 'data'}" in said
        assert said.endswith("or name it in MTKIT_DATA")
        assert "\n" not in said
    assert f"{name}: not in {tmp_path / 'data'}" in said
    assert not list((tmp_path / "data").rglob("source.txt"))


@pytest.mark.parametrize("index", ["opus"], indirect=True)
def test_two_processes_take_a_corpus_once(index: Index) -> None:
    name, said = index(sample(5)), list[str]()
    threads = [threading.Thread(target=fetch, args=(name, said)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum("30 lines" in note for note in said) == 1


@pytest.mark.parametrize(
    ("index", "name", "error", "message"),
    [
        ("sacrebleu", "sacrebleu:toy/tset", UsageError, "no such text of en and de; corpora: .*toy/test"),
        ("opus", "opus:Toy/v2", UsageError, "OPUS has no such text of en and de; corpora: Toy"),
        ("opus", "opus:../Toy", None, ""),
        ("opus", "opus:a/../../Toy", UsageError, "no name of a corpus"),
    ],
    indirect=["index"],
)
def test_unknown_names(index: Index, name: str, error: type[Exception] | None, message: str) -> None:
    index(sample(6))
    if error is None:
        assert named_corpus(name) is None
        return
    with pytest.raises(error, match=message):
        fetch(name)


@pytest.mark.parametrize("index", ["opus"], indirect=True)
def test_bad_archives_and_missing_languages(index: Index, tmp_path: Path) -> None:
    name = index(sample(7))
    with pytest.raises(UsageError, match="its languages are not known; name them: opus:Toy#SRC,TGT"):
        text_files(Path(name), pytest.fail)
    archive = tmp_path / "data" / "opus" / "Toy" / "en-de.zip"  # which a person put there
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"<html>")
    with pytest.raises(DataError, match="not an archive with both sides; delete it"):
        fetch(name)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("Toy.de-en.de", "x\ny\n")
        file.writestr("Toy.de-en.en", "x\n")
    with pytest.raises(DataError, match="different numbers of lines"):
        fetch(name)


@pytest.mark.parametrize("kind", ["opus", "mtdata"])
def test_a_missing_package_is_named(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTKIT_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "opustools", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"mtkit\[data\]" if kind == "opus" else "pip install mtdata"):
        fetch(f"{kind}:Toy")


@pytest.mark.parametrize("index", ["opus"], indirect=True)
def test_names_in_recipes_are_no_paths(index: Index, tmp_path: Path) -> None:
    name = index(sample(8))
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "name: a\ncorpus:\n  root: x\n  src_lang: en\n  tgt_lang: de\n"
        f"  train: [{{pairs: {name}}}]\n  test: {{toy: {{pairs: '{name}#de,en'}}}}\n"
    )
    corpus = read_recipe(str(path), []).recipe.corpus
    assert corpus.train == [TrainDocument(pairs=Path(name), src_lang="en", tgt_lang="de")]
    assert corpus.test["toy"].pairs == Path(f"{name}#de,en")
    assert isinstance(corpus, CorpusConfig)
    assert isinstance(corpus.test["toy"], HeldOutDocument)


@pytest.mark.parametrize("index", ["opus"], indirect=True)
def test_the_command_prints_the_files(index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = index(sample(9))
    assert entry.execute(["fetch", name, "--src-lang", "en", "--tgt-lang", "de"]) == 0
    folder = tmp_path / "data" / "opus" / "Toy" / "en-de"
    assert capsys.readouterr().out == f"{folder / 'source.txt'}\n{folder / 'target.txt'}\n"
    assert entry.execute(["fetch", name, "-o", "x"]) == 2
    assert entry.execute(["fetch", "multi30k", "--src-lang", "en"]) == 2
