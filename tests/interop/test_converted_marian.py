"""A Marian model of transformers, imported, beside its conversions: by ct2-transformers-converter, and for Argos.

The converter comes with CTranslate2 (`[dev]`), Argos Translate with a room (make_rooms.py).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.export.argos import export_argos
from mtkit.importers.import_model import Languages, import_model
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.translate.load import load_translator
from mtkit.translate.translation import Translation
from tests.interop.make_rooms import room
from tests.toy.foreign_models import DATA, lines, make_marian

pytestmark = pytest.mark.slow
MAX_TOKENS = 60

ARGOS = """
import sys, types
for name in ("stanza", "spacy", "minisbd"):  # sentence splitters, which would download models
    module = types.ModuleType(name)
    module.__getattr__ = lambda attribute: type(attribute, (), {})
    sys.modules[name] = module
from argostranslate import package, translate
import ctranslate2
package.install_from_path(sys.argv[1])
(installed,) = package.get_installed_packages()
translator = ctranslate2.Translator(str(installed.package_path / "model"))
class Whole:
    def split_sentences(self, text):
        return [text]
for line in open(sys.argv[2], encoding="utf-8"):
    print(translate.apply_packaged_translation(installed, line.rstrip("\\n"), translator, Whole(), 4)[0].value)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    folder = make_marian(tmp_path_factory.mktemp("marian"), updates=300)
    import_model(folder, folder / "imported", Languages())
    return folder


def translations(model: Path, texts: list[str], *overrides: str) -> list[Translation]:
    limits = [f"max_length.offset={MAX_TOKENS}", *overrides]
    limits += [] if "beam_size=1" in overrides else ["early_stopping=true"]
    return list(load_translator(model, compute_type="float32", search_overrides=limits).translate(texts))


@pytest.mark.parametrize("beams", [1, 4])
def test_the_converter_of_ctranslate2_gives_the_same_texts(folder: Path, tmp_path: Path, beams: int) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    program = shutil.which("ct2-transformers-converter", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("no ct2-transformers-converter beside this Python")
    command = [program, "--model", str(folder), "--output_dir", str(tmp_path / "converted")]
    subprocess.run(command, check=True, capture_output=True)
    texts = lines("test.en")
    translator = ctranslate2.Translator(str(tmp_path / "converted"), compute_type="float32")
    tokenizer = Tokenizer.load(folder / "imported" / "src.model")
    tokens = [[*tokenizer.ids_to_tokens(ids), "</s>"] for ids in tokenizer.encode(texts)]
    limits = {"max_decoding_length": MAX_TOKENS + 1, "min_decoding_length": 0}
    results = translator.translate_batch(tokens, beam_size=beams, max_batch_size=64, **limits)
    found = ["".join(each.hypotheses[0]).replace("▁", " ").strip() for each in results]
    ours = translations(folder / "imported", texts, f"beam_size={beams}")
    whole = [(one.hyp, other) for one, other in zip(ours, found, strict=True) if "limit" not in one.flags]
    assert len(whole) > 0.8 * len(texts)
    assert sum(one != other for one, other in whole) <= len(whole) / 100


def test_argos_translate_installs_the_package_and_gives_the_same_texts(folder: Path, tmp_path: Path) -> None:
    python = room("argos") / "bin" / "python"
    export_argos(folder / "imported", tmp_path / "x.argosmodel", check_file=DATA / "test.en")
    texts = lines("test.en", 50)
    (tmp_path / "text").write_text("\n".join(texts) + "\n", encoding="utf-8")
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    command = [python, "-c", ARGOS, tmp_path / "x.argosmodel", tmp_path / "text"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = [line.strip() for line in done.stdout.split("\n")[:-1]]
    ours = translations(folder / "imported", texts, "beam_size=4", "length_penalty=0.2", "max_length.offset=255")
    assert sum(one.hyp == other for one, other in zip(ours, found, strict=True)) >= 0.9 * len(texts)
