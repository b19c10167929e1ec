"""Options of `mtkit translate`: n-best lists, search options, JSON input, alignments, flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.model import Transformer
from tests.e2e.translation.test_translate import LINES, lines_of, make_model, translated


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1)
    return str(make_model(tmp_path_factory.mktemp("transformer"), config))


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return str(path)


def records(capsys, *words: str) -> list[dict]:
    return [json.loads(line) for line in translated(capsys, *words, "--jsonl")]


def test_n_best_lists_are_those_of_json(model, source, capsys):
    printed = translated(capsys, model, source, "--n-best", "2")
    expected = []
    for record in records(capsys, model, source, "--n-best", "2"):
        nbest = record["nbest"] or [{"hyp": "", "score": 0.0}]
        expected += [f"{record['line']} ||| {each['hyp']} ||| {each['score']:.6f}" for each in nbest]
        assert len(nbest) == (2 if record["nbest"] else 1)
    assert printed == expected


def test_an_n_best_list_is_resumed_by_source_lines(model, source, capsys):
    command = ["translate", model, source, "--n-best", "2", "--flush-every", "2"]  # the same batches in both
    assert entry.execute(command) == 0
    printed = lines_of(capsys.readouterr().out)
    output, whole = Path(source).with_name("out.txt"), Path(source).read_bytes()
    Path(source).write_bytes(whole + b"caf\xe9\n")
    assert entry.execute([*command, "-o", str(output)]) == 65
    Path(source).write_bytes(whole)
    assert entry.execute([*command, "-o", str(output), "--resume"]) == 0
    assert lines_of(output.read_text(encoding="utf-8")) == printed


@pytest.mark.parametrize(
    ("words", "overrides"),
    [
        (["--length-penalty", "0"], ["search.length_penalty=0"]),
        (["--max-length", "3"], ["search.max_length={offset: 3, factor: 0}"]),
        (["--n-best", "2", "--beam-size", "4"], ["search.n_best=2", "search.beam_size=4"]),
        (
            ["--sample", "0.5", "--seed", "7", "--n-best", "3"],
            ["search.method={kind: sampling, temperature: 0.5, seed: 7, num_samples: 3}", "search.n_best=3"],
        ),
        (
            ["--sample", "0.5", "--set", "search.method.num_samples=6", "--set", "search.rerank={kind: mbr}"],
            ["search.method={kind: sampling, temperature: 0.5, num_samples: 6}", "search.rerank={kind: mbr}"],
        ),
        (
            ["--sample", "0.5", "--n-best", "2", "--set", "method.num_samples=6", "--set", "method.seed=7"],
            ["search.method={kind: sampling, temperature: 0.5, seed: 7, num_samples: 6}", "search.n_best=2"],
        ),
    ],
)
def test_options_are_settings_of_the_search(model, source, capsys, words, overrides):
    settings = [word for each in overrides for word in ("--set", each)]
    assert records(capsys, model, source, *words) == records(capsys, model, source, *settings)


def test_samples_depend_on_the_seed(model, source, capsys):
    words = (model, source, "--sample", "2.0")
    first, same, other = (translated(capsys, *words, "--seed", seed) for seed in "112")
    assert first == same != other


def test_a_maximum_length_is_in_tokens(model, source, capsys):
    words = ("--max-length", "2", "--set", "search.min_length.offset=9")
    lengths = [len(record["tokens"]) for record in records(capsys, model, source, *words)]
    assert lengths == [2 if line.strip() else 0 for line in LINES]


def test_a_target_prefix_begins_every_translation_except_of_blank_lines(model, source, capsys):
    hyps = translated(capsys, model, source, "--target-prefix", "the d")
    assert [hyp.lstrip().startswith("the d") for hyp in hyps] == [bool(line.strip()) for line in LINES]


def test_json_input_keeps_its_fields_and_has_constraints(model, source, capsys):
    path = Path(source).with_name("in.jsonl")
    fields = [{"text": LINES[0], "id": 7, "meta": {"x": [1.5, None]}}, {"text": LINES[3], "prefix": "the", "é": "ü"}]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in [*fields]) + "\n", encoding="utf-8")
    *written, blank = records(capsys, model, str(path), "--jsonl-input")
    assert [{key: record[key] for key in each} for record, each in zip(written, fields, strict=True)] == fields
    plain = translated(capsys, model, source)
    assert written[0]["hyp"] == plain[0]
    assert written[1]["hyp"].startswith("the")
    assert (blank["line"], blank["hyp"]) == (3, "")


@pytest.mark.parametrize(
    "fields",
    [
        '"x": 1e400, "y": 1.10, "z": 1e5, "w": -0.0, "v": 0.12345678901234567890',
        '"x": ' + "9" * 5000,
        r'"x": "\u00e9\ud83d\ude00\ud800", "y" : [ ]',
        '"x": 1, "x": 2',
        '"é": "\u2028\x7f"',
    ],
)
def test_fields_of_json_input_are_copied_as_they_are_written(model, source, capsys, fields):
    path = Path(source).with_name("in.jsonl")
    path.write_text(f'  {{"text": "a cat", {fields} }} \n', encoding="utf-8")
    assert entry.execute(["translate", model, str(path), "--jsonl-input"]) == 0
    (line,) = lines_of(capsys.readouterr().out)
    assert line.startswith(f'{{"text": "a cat", {fields}, "line": 1, "hyp": ')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1}', 'in.jsonl:2: needs a "text", as in {"text": '),
        ('{"text": 1}', 'in.jsonl:2: needs a "text"'),
        ("text", "in.jsonl:2: not JSON: text"),
        ('["text"]', "in.jsonl:2: not a JSON object"),
        ('{"text": "a", "x": NaN}', "in.jsonl:2: not JSON"),
        ('{"text": "a", "x": ' + "[" * 9999 + "]" * 9999 + "}", "in.jsonl:2: JSON that is nested too deeply"),
        (r'{"text": "\ud800"}', "in.jsonl:2: half of a surrogate pair in a text"),
        (r'{"text": "a", "include": ["\ud800"]}', "in.jsonl:2: half of a surrogate pair in a text"),
        ('{"text": "a", "score": 1}', "in.jsonl:2: the output has a field score too; rename the field of the input"),
        ('{"text": "a", "include": "b"}', "in.jsonl:2: prefix must be a string"),
    ],
)
def test_invalid_json_input_is_named(model, source, capsys, line, message):
    path = Path(source).with_name("in.jsonl")
    path.write_text(f'{{"text": "a cat"}}\n{line}\n')
    assert entry.execute(["translate", model, str(path), "--jsonl-input"]) == 65
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(lines_of(captured.out)) == 1


def test_alignments_and_flags_are_files_beside_the_output_and_resumed_with_it(model, source, capsys):
    expected = records(capsys, model, source)
    output, pharaoh, flags = (Path(source).with_name(name) for name in ("out.txt", "out.align", "out.flags"))
    command = ["translate", model, source, "-o", str(output), "--alignments", str(pharaoh), "--flags", str(flags)]
    whole = Path(source).read_bytes()
    Path(source).write_bytes(whole + b"caf\xe9\n")
    assert entry.execute(command) == 65
    assert not pharaoh.exists()
    Path(source).write_bytes(whole)
    assert entry.execute([*command, "--resume"]) == 0
    assert lines_of(pharaoh.read_text()) == [" ".join(f"{s}-{t}" for s, t in each["alignment"]) for each in expected]
    flagged = [json.loads(line) for line in lines_of(flags.read_text(encoding="utf-8"))]
    assert flagged == [
        {"line": each["line"], "flags": each["flags"], "src": LINES[each["line"] - 1], "hyp": each["hyp"]}
        for each in expected
        if each["flags"]
    ]
    assert 6 in [each["line"] for each in flagged]
    names = {path.name for path in output.parent.iterdir()}
    assert names == {"in.txt", "out.txt", "out.align", "out.flags"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "2"], "--seed is the seed of sampling; add --sample TEMPERATURE"),
        (["--beam-size", "2", "--set", "search.beam_size=3"], "search.beam_size=3 and --beam-size set the same key"),
        (["--max-length", "9", "--set", "max_length={factor: 1}"], "and --max-length set the same key"),
        (
            ["--sample", "1", "--seed", "2", "--set", "method.seed=3"],
            "search.method.seed=3 and --seed set the same key",
        ),
        (["--sample", "1", "--set", "method={kind: beam}"], "and --sample set the same key"),
        (["--n-best", "2", "--set", "n_best=3"], "search.n_best=3 and --n-best set the same key"),
        (["--sample", "1", "--beam-size", "3"], "search.beam_size has no effect with method.kind sampling"),
        (["--set", "search.n_best=2"], "use --n-best 2 instead, or add --jsonl"),
        (["--jsonl-input", "--constraints", "FILE"], "with --jsonl-input, prefix, include and exclude are fields"),
        (["--flags", "FILE"], "--flags FILE would overwrite an input file"),
        (["-o", "out", "--flags", "out"], "--flags out and -o out are one file"),
        (["-o", "out", "--alignments", "out.part"], "--alignments out.part and -o out are one file"),
        (["--alignments", "-"], "--alignments -: name a file; without -o the translations go to stdout"),
        (["-o", "-"], "-o -: name a file; without -o the translations go to stdout"),
        (["-o", "out.de.gz"], "-o out.de.gz: is written as plain text; omit .gz"),
        (["--target-prefix", " \t"], "--target-prefix: blank; omit it"),
        (["--sample", "0"], "--sample: 0 is out of range, the minimum is 0.001"),
        (["--sample", "1", "--seed", "9" * 20], "--seed"),
    ],
)
def test_contradictions_are_refused(model, source, capsys, words, message):
    words = [source if word == "FILE" else word for word in words]
    assert entry.execute(["translate", model, source, *words]) == 2
    assert message.replace("FILE", source) in capsys.readouterr().err


def test_alignments_of_a_model_without_attention_are_refused(tmp_path, source, capsys):
    model = str(make_model(tmp_path, Seq2SeqRNNConfig(d_model=8, num_layers=1)))
    pharaoh = tmp_path / "pharaoh"
    assert entry.execute(["translate", model, source, "--alignments", str(pharaoh)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--alignments needs attention over the source; a model of kind rnn has none" in captured.err
    assert not pharaoh.exists()


@pytest.mark.parametrize(
    ("line", "is_reported"),
    [('{"text": "the dog"}', True), ('{"text": 5}', False), ('{"id": "x"}', False), ("{a dog}", False)],
)
def test_json_lines_that_are_translated_as_text_are_reported(model, source, capsys, line, is_reported):
    Path(source).write_text(f"{line}\n" * 3)
    note = f'{source}: JSON lines are translated as text here; --jsonl-input translates the "text" of each\n'
    for words, expected in (([], is_reported), (["--jsonl"], is_reported), (["--quiet"], False)):
        assert entry.execute(["translate", model, source, *words]) == 0
        captured = capsys.readouterr()
        assert len(lines_of(captured.out)) == 3
        assert captured.err.count(note) == expected


@pytest.mark.whole
@pytest.mark.parametrize("words", [["--help-search"], ["--help", "search"], ["model", "--help", "search", "--quiet"]])
def test_help_search_lists_every_key(capsys, words):
    assert entry.execute(["translate", *words]) == 0
    printed = capsys.readouterr().out
    for key in ("search.beam_size", "search.max_length.factor", "search.method.temperature", "search.rerank.metric"):
        assert f"  {key}: " in printed


def test_progress_is_on_stderr_with_an_output_file_only(model, source, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mtkit.translate.output.LOG_SECONDS", 0.0)
    assert entry.execute(["translate", model, source, "-o", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{len(LINES) - 1} of {len(LINES)} lines, " in captured.err  # at the arrival of the last one
    for words in ([source], [source, "-o", "/dev/null"], [source, "-o", str(tmp_path / "out"), "--quiet"]):
        assert entry.execute(["translate", model, *words]) == 0
        assert " lines/s" not in capsys.readouterr().err


def test_quiet_writes_errors_alone(model, source, tmp_path, capsys):
    Path(source).write_text("\u4e00\n")
    assert entry.execute(["translate", model, source]) == 0
    assert "--flags FILE lists them" in capsys.readouterr().err
    assert entry.execute(["translate", model, source, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert entry.execute(["translate", model, str(tmp_path / "none"), "--quiet"]) == 66
    assert capsys.readouterr().err.count("\n") == 1


def test_one_note_when_memory_runs_out(model, source, capsys, monkeypatch):
    expected = translated(capsys, model, source)

    def limited(start):
        def limited_start(self, src, *words, **options):
            if src.ids.size(0) > 3:
                raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return start(self, src, *words, **options)

        return limited_start

    monkeypatch.setattr(Transformer, "start", limited(Transformer.start))
    assert entry.execute(["translate", model, source, "--no-rewrite"]) == 0
    captured = capsys.readouterr()
    assert lines_of(captured.out) == expected
    assert captured.err.count("out of memory: batches are halved; --batch-tokens ") == 1
