import bz2
import gzip
import io
import itertools
import lzma
import os
import sys
import threading

import pytest

from mtkit.errors import DataError, MissingExtraError, MissingInputError
from mtkit.text import lines as lines_module
from mtkit.text.lines import TextSubset, count_lines, decode_lines, numbered_lines, read_lines


def write(tmp_path, content, name="text"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r\r\n", ["a\r"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "b"]),
        (b"\xef\xbb\xbf", []),
        (b"a\n\xef\xbb\xbf\nb \xef\xbb\xbf\n", ["a", "", "b \ufeff"]),
        ("a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i\n".encode(), ["a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i"]),
        (b" a \n\t\n", [" a ", "\t"]),
    ],
)
def test_only_line_feeds_end_a_line(tmp_path, content, expected):
    path = write(tmp_path, content)
    assert list(read_lines(path)) == expected
    assert count_lines(path) == len(expected)


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_chunk_size_changes_nothing(tmp_path, monkeypatch, chunk):
    text = "ä\r\n\nöü😀\nlast"
    path = write(tmp_path, b"\xef\xbb\xbf" + text.encode())
    monkeypatch.setattr(lines_module, "_CHUNK", chunk)
    assert list(read_lines(path)) == ["ä", "", "öü😀", "last"]
    assert count_lines(path) == 4


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, lambda content: content])
def test_compression_is_detected_from_content(tmp_path, compress):
    path = write(tmp_path, compress(b"eins\nzwei\n"), "misleading.gz")
    assert list(read_lines(path)) == ["eins", "zwei"]
    assert count_lines(path) == 2


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_truncated_archive_is_a_data_error(tmp_path, compress):
    path = write(tmp_path, compress(bytes(range(10)) * 1000)[:-10])
    with pytest.raises(DataError, match="damaged or incomplete"):
        list(read_lines(path))
    with pytest.raises(DataError, match="damaged or incomplete"):
        count_lines(path)


def test_zstandard_without_its_package_names_the_extra(tmp_path, monkeypatch):
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"backports\.zstd: pip install 'mtkit\[zst\]'"):
        list(read_lines(write(tmp_path, b"\x28\xb5\x2f\xfd rest")))


def test_zstandard_with_its_package(tmp_path):
    zstd = pytest.importorskip("backports.zstd")
    content = zstd.compress("eins\nzwä".encode())
    assert list(read_lines(write(tmp_path, content))) == ["eins", "zwä"]
    for damaged in (content[:-3], content[:8] + b"\xff\xff" + content[10:]):
        with pytest.raises(DataError, match="damaged or incomplete"):
            count_lines(write(tmp_path, damaged))


@pytest.mark.parametrize("chunk", [1, 5, 1 << 20])
def test_invalid_byte_is_reported_after_the_valid_lines(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(lines_module, "_CHUNK", chunk)
    path = write(tmp_path, b"gut\n\xc3\xa4\nso \xe4 nicht\nmehr\n")
    lines = read_lines(path)
    assert [next(lines), next(lines)] == ["gut", "ä"]
    with pytest.raises(DataError) as caught:
        next(lines)
    assert str(caught.value).startswith(f"{path}:3: byte 4 of the line (0xe4) is not UTF-8")


def test_utf16_gets_its_own_hint(tmp_path):
    with pytest.raises(DataError, match=r":1: byte 1 .*utf-16"):
        list(read_lines(write(tmp_path, "text\n".encode("utf-16"))))


def test_character_cut_at_the_end_of_the_file(tmp_path):
    with pytest.raises(DataError, match=r":2: byte 2 "):
        list(read_lines(write(tmp_path, b"a\nb\xc3")))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(MissingInputError, match="nowhere: no such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(MissingInputError, match="a folder, where a file is expected"):
        count_lines(tmp_path)


def test_a_pipe_can_be_read_but_not_counted(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(MissingInputError, match="pipe: a pipe or device, where a file is expected"):
        count_lines(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"eins\nzwei\n",))
    writer.start()
    assert list(read_lines(pipe)) == ["eins", "zwei"]
    writer.join()


def test_a_pipe_yields_each_line_as_it_arrives():
    class Pipe(io.RawIOBase):
        asked = 0

        def read1(self, size):
            self.asked += 1
            return [b"eins\nzw", b"ei\n", b""][self.asked - 1]

    pipe = Pipe()
    lines = decode_lines(pipe, "<stdin>")
    assert next(lines) == "eins"
    assert pipe.asked == 1
    assert list(lines) == ["zwei"]


@pytest.mark.parametrize("total", [1, 5, 10, 97])
@pytest.mark.parametrize("limit", [1, 3, 5, 10, 1000])
def test_a_subset_has_its_number_of_lines_evenly_spaced_and_in_order(tmp_path, total, limit):
    path = write(tmp_path, "".join(f"{number}\n" for number in range(1, total + 1)).encode())
    subset = TextSubset(path, limit)
    chosen = [int(line) for line in read_lines(subset)]
    assert len(chosen) == min(total, limit) == count_lines(subset)
    assert [(number, str(number)) for number in chosen] == list(numbered_lines(subset))
    assert chosen == sorted(chosen)
    gaps = {b - a for a, b in itertools.pairwise(chosen)}
    assert gaps <= {total // len(chosen), -(-total // len(chosen))}
    assert set(chosen) <= set(map(int, read_lines(TextSubset(path, 2 * limit))))


def test_a_subset_reports_a_bad_byte_outside_of_it(tmp_path):
    path = write(tmp_path, b"a\n\xff\nc\nd\n")
    with pytest.raises(DataError, match="text:2: byte 1"):
        list(read_lines(TextSubset(path, 1)))


def test_numbers_of_a_whole_file(tmp_path):
    assert list(numbered_lines(write(tmp_path, b"a\nb\nc\n"))) == [(1, "a"), (2, "b"), (3, "c")]
