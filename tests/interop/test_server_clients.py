"""Programs that were written for LibreTranslate, DeepL and OpenAI, unchanged, against the server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.serve.conftest import Server
from tests.interop.make_rooms import room

TEXT = "the dog sees a cat"


def run(words: list[str], **options: Any) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python(program: str, server: Server) -> Any:
    """What a program prints as JSON; `url` is the server's address."""
    head = f"import json\nurl = {server.url!r}\ntext = {TEXT!r}\n"
    return json.loads(run([str(room("clients") / "bin" / "python"), "-c", head + program]))


def node(program: str, server: Server) -> Any:
    if shutil.which("node") is None:
        pytest.skip("no node")
    head = f"const url = {server.url!r};\nconst text = {TEXT!r};\n"
    file = room("web") / f"program-{os.getpid()}.mjs"
    file.write_text(f"{head}{program}")
    try:
        return json.loads(run(["node", str(file)]))
    finally:
        file.unlink()


@pytest.fixture
def expected(server: Server) -> str:
    return str(server.translate(q=TEXT).json()["translatedText"])


@pytest.mark.whole
def test_libretranslatepy(server: Server, expected: str) -> None:
    program = """
from libretranslatepy import LibreTranslateAPI
api = LibreTranslateAPI(url + "/")
print(json.dumps([api.translate(text, "en", "de"), api.detect("das ist ein Haus"), api.languages()]))
"""
    translated, detected, languages = python(program, server)
    assert translated == expected
    assert detected[0]["language"] == "de"
    assert {each["code"] for each in languages} == {"en", "de", "fr"}


@pytest.mark.whole
def test_libretranslate_aio(server: Server, expected: str) -> None:
    program = """
import asyncio
from libretranslate_aio import AsyncLibreTranslate
async def main():
    async with AsyncLibreTranslate(url) as api:
        one = await api.translate(text, "en", "de", alternatives=1)
        many = await api.translate([text, text], "auto", "de")
        detected, codes = many.detected_language is not None, [each.code for each in await api.languages()]
        limit, health = (await api.frontend_settings()).char_limit, await api.health()
        return [one.translated_text, len(one.alternatives), many.translated_text, detected, codes, limit, health]
print(json.dumps(asyncio.run(main())))
"""
    one, alternatives, many, is_detected, languages, limit, is_healthy = python(program, server)
    assert (one, alternatives, is_detected, is_healthy) == (expected, 1, True, True)
    assert (len(many), set(languages), limit) == (2, {"en", "de", "fr"}, 20_000)


@pytest.mark.whole
def test_transpolibre(server: Server, expected: str, tmp_path: Path) -> None:
    catalogue = tmp_path / "de.po"
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    catalogue.write_text(f'{header}\nmsgid "{TEXT}"\nmsgstr ""\n')
    command = room("clients") / "bin" / "transpolibre"
    options = ["--engine", "LibreTranslate", "--url", server.url, "--source-lang", "en", "--target-lang", "de"]
    run([str(command), *options, "--file", str(catalogue)], cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    assert f'msgstr "{expected}"' in catalogue.read_text()


def test_deepl(server: Server, expected: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<p>{TEXT}</p>")
    program = f"""
import deepl
client = deepl.DeepLClient("some-key", server_url=url)
one = client.translate_text(text, target_lang="DE", source_lang="EN")
many = client.translate_text([text, "<b>" + text + "</b>"], target_lang="DE", source_lang="EN", tag_handling="xml")
glossary = client.create_glossary("mine", "EN", "DE", {{"dog": "Hund"}})
with_terms = client.translate_text(text, source_lang="EN", target_lang="DE", glossary=glossary)
entries = client.get_glossary_entries(glossary)
listed = [each.glossary_id for each in client.list_glossaries()]
client.delete_glossary(glossary)
files = [{str(tmp_path / "a.html")!r}, {str(tmp_path / "b.html")!r}]
client.translate_document_from_filepath(*files, source_lang="EN", target_lang="DE")
try:
    client.translate_text(text, source_lang="EN", target_lang="XX")
    error = ""
except deepl.DeepLException as caught:
    error = str(caught)
print(json.dumps([one.text, one.detected_source_lang, [each.text for each in many], with_terms.text, entries,
    glossary.glossary_id in listed, [each.code for each in client.get_source_languages()],
    client.get_usage().character.count > 0, error]))
"""
    text, source, many, with_terms, entries, is_listed, languages, is_counted, error = python(program, server)
    assert (text, source) == (expected, "EN")
    assert many[0] == expected
    assert many[1].replace("<b>", "").replace("</b>", "") == expected
    assert "Hund" in with_terms
    assert (entries, is_listed, is_counted) == ({"dog": "Hund"}, True, True)
    assert set(languages) == {"EN", "DE", "FR"}
    assert (tmp_path / "b.html").read_text() == f"<p>{expected}</p>"
    assert "not supported" in error


def test_deepl_multilingual_glossaries(server: Server) -> None:
    program = """
import deepl
client = deepl.DeepLClient("some-key", server_url=url)
Entries = deepl.api_data.MultilingualGlossaryDictionaryEntries
dictionaries = [Entries("EN", "DE", {"dog": "Hund"}), Entries("FR", "EN", {"chien": "dog"})]
made = client.create_multilingual_glossary("mine", dictionaries)
texts = [client.translate_text(text, source_lang="EN", target_lang="DE", glossary=made).text]
client.update_multilingual_glossary_name(made, "yours")
client.update_multilingual_glossary_dictionary(made, Entries("EN", "DE", {"cat": "Katze"}))
merged = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries[0].entries
replaced = client.replace_multilingual_glossary_dictionary(made, Entries("EN", "DE", {"dog": "Dackel"}))
texts.append(client.translate_text(text, source_lang="EN", target_lang="DE", glossary=made).text)
client.delete_multilingual_glossary_dictionary(made, source_lang="FR", target_lang="EN")
shown = client.get_multilingual_glossary(made.glossary_id)
listed = [each.glossary_id for each in client.list_multilingual_glossaries()]
client.delete_multilingual_glossary(made)
try:
    client.get_multilingual_glossary(made.glossary_id)
    error = ""
except deepl.GlossaryNotFoundException as caught:
    error = str(caught)
print(json.dumps([len(made.dictionaries), texts, merged, replaced.entry_count, shown.name, len(shown.dictionaries),
    made.glossary_id in listed, error]))
"""
    count, (first, second), merged, replaced, name, left, is_listed, error = python(program, server)
    assert ("Hund" in first, "Dackel" in second) == (True, True)
    assert sorted(merged.split("\n")) == ["cat\tKatze", "dog\tHund"]
    assert (count, replaced, name, left, is_listed) == (2, 1, "yours", 1, True)
    assert "no such glossary" in error


def test_deepl_documents_without_a_source(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>Das ist ein ganz gewöhnlicher Satz über das Wetter in den Bergen.</p>")
    program = f"""
import deepl
client = deepl.DeepLClient("some-key", server_url=url)
files = [{str(tmp_path / "a.html")!r}, {str(tmp_path / "b.html")!r}]
print(json.dumps(client.translate_document_from_filepath(*files, target_lang="FR").done))
"""
    assert python(program, server)
    fields = {"q": "Das ist ein ganz gewöhnlicher Satz über das Wetter in den Bergen.", "source": "de", "target": "fr"}
    assert (
        tmp_path / "b.html"
    ).read_text() == f"<p>{server.client.post('/translate', json=fields).json()['translatedText']}</p>"


def test_deepl_command(server: Server, expected: str) -> None:
    command = [str(room("clients") / "bin" / "python"), "-m", "deepl", "--auth-key", "some-key", "text", "--to", "DE"]
    environment = {**os.environ, "DEEPL_SERVER_URL": server.url}
    assert run([*command, "--from", "EN", TEXT], env=environment).strip() == expected


def test_deepl_node(server: Server, expected: str) -> None:
    program = """
import * as deepl from "deepl-node";
const client = new deepl.DeepLClient("some-key", { serverUrl: url });
const one = await client.translateText(text, "en", "de");
const usage = await client.getUsage();
console.log(JSON.stringify([one.text, one.detectedSourceLang, usage.character.count > 0]));
"""
    assert node(program, server) == [expected, "en", True]


def test_libretranslate_of_npm(server: Server, expected: str) -> None:
    program = """
import library from "libretranslate";
const fields = { query: text, source: "en", target: "de", apiurl: url };
console.log(JSON.stringify(await library.translate(fields)));
"""
    assert node(program, server) == expected


def test_openai(server: Server, expected: str) -> None:
    program = """
import openai
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
messages = [{"role": "system", "content": "Translate."}, {"role": "user", "content": text}]
done = client.chat.completions.create(model="en-de", messages=messages, temperature=0)
events = client.chat.completions.create(model="en-de", messages=messages, stream=True)
streamed = "".join(event.choices[0].delta.content or "" for event in events)
try:
    client.chat.completions.create(model="gpt-5", messages=messages)
except openai.NotFoundError as error:
    missing = error.message
models = [each.id for each in client.models.list()]
print(json.dumps([done.choices[0].message.content, streamed, missing, models]))
"""
    content, streamed, missing, models = python(program, server)
    assert content == streamed == expected
    assert "'gpt-5' is not one of" in missing
    assert {"en-de", "auto-de"} <= {*models}
