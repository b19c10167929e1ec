"""Documents of each format from a seed, and translators that need no model."""

from __future__ import annotations

import html
import io
import json
import random
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mtkit.documents.format import format_of
from mtkit.documents.translate import DocumentReport, translate_document

TEXT = "The old man sees a dog near his house & says <hello> to it: «Où est-il?» Straße 今日は don't"
WORDS = TEXT.split()
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


class Line(NamedTuple):
    hyp: str
    alignment: tuple[tuple[int, int], ...] = ()
    flags: tuple[str, ...] = ()


def same(lines: Iterable[str]) -> Iterator[Line]:
    yield from map(Line, lines)


def upper(lines: Iterable[str]) -> Iterator[Line]:
    for line in lines:
        yield Line(line.upper(), tuple((i, i) for i in range(len(line.split()))))


def translate(path: Path, output: Path, translator=upper, fields=()) -> DocumentReport:
    form = format_of(path, src_lang="en", tgt_lang="de", fields=fields)
    return translate_document(path, output, form, translator)


def java_char(char: str, encoding: str) -> str:
    """A character as a file of properties has it: its units of UTF-16 where the encoding lacks it."""
    if encoding == "utf-8" or ord(char) < (256 if encoding == "iso-8859-1" else 128):
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


class Writer:
    """Random text and documents."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def text(self, most: int = 12) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, most)))

    def several(self, make, most: int = 8) -> list[str]:
        return [make() for _ in range(self.rng.randint(1, most))]

    def phrase(self, escape=html.escape) -> str:
        """Text with nested tags, as HTML."""
        if self.rng.random() < 0.5:
            return escape(self.text(5))
        tag = self.rng.choice(["b", "i", "a", "span"])
        inner = f"<{tag} class='x>y'>{self.phrase(escape)}</{tag}>"
        return f"{escape(self.text(3))} {inner}{self.rng.choice([' ', ''])}{escape(self.text(3))}"

    def document(self, suffix: str) -> bytes:
        return getattr(self, f"make_{suffix.replace('.', '_')}")()

    def make_html(self) -> bytes:
        blocks = [
            lambda: f"<p>\n  {self.phrase()}\n</p>",
            lambda: f"<h2 id=a>{self.phrase()}</h2><!-- {self.text()} -->".replace("--«", "«"),
            lambda: f"<ul><li>{self.phrase()}<li>{self.phrase()} <br/> {self.phrase()}</ul>",
            lambda: "<script>if (a<b) { x('<p>no</p>') }</script><pre>keep\n  me</pre>",
            lambda: f"<p>{self.phrase()} <code>x &lt; 1</code> <img src='a.png' alt=b> {self.phrase()}",
        ]
        body = "\n".join(self.several(lambda: self.rng.choice(blocks)()))
        return (
            f"<!DOCTYPE html>\r\n<html><head><title>{html.escape(self.text())}</title></head>\n{body}</html>".encode()
        )

    def make_md(self) -> bytes:
        def text() -> str:
            return self.text().replace("<hello>", "hello")

        blocks = [
            lambda: f"## {text()}",
            lambda: f"{text()} **{text()}** and `code *x*` or [{text()}](http://a.b/c_d_e)\n{text()}",
            lambda: f"- {text()}\n- {text()}\n  - {text()} ![alt](a.png)",
            lambda: f"> {text()}\n> *{text()}*",
            lambda: f"```\n{text()}\n```",
            lambda: f"| a | b |\n|---|:-:|\n| {text()} | 12 |",
            lambda: f"1. {text()}\n2. {text()}",
        ]
        return ("\n\n".join(self.several(lambda: self.rng.choice(blocks)())) + "\n").encode()

    def _cues(self, point: str, text) -> list[str]:
        lines = self.several(lambda: "\n".join(self.several(text, 3)))
        times = [f"00:0{i}:01{point}000 --> 00:0{i}:03{point}500" for i in range(len(lines))]
        return [f"{i + 1}\n{time}\n{line}\n" for i, (time, line) in enumerate(zip(times, lines, strict=True))]

    def make_srt(self) -> bytes:
        cues = self._cues(",", lambda: self.rng.choice(["", "<i>", "- "]) + self.text(6).replace("<hello>", "hello"))
        return "\n".join(cues).replace("\n", self.rng.choice(["\n", "\r\n"])).encode()

    def make_vtt(self) -> bytes:
        cues = self._cues(".", lambda: html.escape(self.text(6), quote=False))
        return ("WEBVTT - x\n\nNOTE\nThis stays.\n\n" + "\n".join(cues)).encode()

    def make_po(self) -> bytes:
        def message() -> str:
            text = json.dumps(self.text() + self.rng.choice(["", "\n", "\tx"]), ensure_ascii=False)
            number = self.rng.randrange(10**9)
            kinds = [
                f'#: a.c:{number}\nmsgctxt "{number}"\nmsgid {text}\nmsgstr ""\n',
                f'#, no-wrap\n#| msgid "x"\nmsgctxt "{number}"\nmsgid ""\n{text}\n"y"\nmsgstr ""\n',
                f'msgctxt "{number}"\nmsgid "{number} a"\nmsgid_plural "{number} b"\nmsgstr[0] ""\nmsgstr[1] ""\n',
                f'msgid "{number} done"\nmsgstr "fertig"\n',
                f'#~ msgid "{number} old"\n#~ msgstr ""\n',
            ]
            return self.rng.choice(kinds)

        head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        head += '"Project-Id-Version: x\\n"\n"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n'
        return "\n".join([head, *self.several(message)]).encode()

    def _inline(self) -> str:
        def escape(text: str) -> str:
            return html.escape(text, quote=False)

        number = self.rng.randrange(10**9)
        first, second, third = (escape(self.text(count)) for count in (4, 3, 2))
        return f'{first} <g id="{number}">{second}</g><x id="{number + 1}"/> {third}'

    def make_xlf(self) -> bytes:
        if self.rng.random() < 0.5:
            units = self.several(
                lambda: (
                    f'<unit id="{self.rng.random()}">\n<segment>\n <source>{self._inline()}</source></segment></unit>'
                )
            )
            body = "\n".join(units).replace("<g ", "<pc ").replace("</g>", "</pc>").replace("<x ", "<ph ")
            return (
                '<?xml version="1.0"?>\n<xliff version="2.0" srcLang="en" trgLang="de" '
                f'xmlns="urn:oasis:names:tc:xliff:document:2.0"><file id="f">{body}</file></xliff>'
            ).encode()
        kinds = ["", "<target/>", '<target state="translated">Fertig</target>', "<note>n</note>"]
        units = self.several(
            lambda: (
                f'<trans-unit id="{self.rng.random()}"><source>{self._inline()}</source>'
                f"{self.rng.choice(kinds)}</trans-unit>"
            )
        )
        return (
            '<?xml version="1.0" encoding="utf-8"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
            f'<file original="a" datatype="x" source-language="en"><body>{chr(10).join(units)}</body></file></xliff>'
        ).encode()

    def make_tmx(self) -> bytes:
        def unit() -> str:
            german = self.rng.choice(["", "<tuv xml:lang='de-AT'><seg>Ja</seg></tuv>"])
            inline = self._inline().replace("<g id", "<hi x").replace("</g>", "</hi>").replace("<x id", "<ph x")
            return f'<tu>\n <prop type="p">x</prop><tuv xml:lang="EN-us">\n  <seg>{inline}</seg></tuv>{german}</tu>'

        header = (
            "<header creationtool='a' creationtoolversion='1' segtype='block' o-tmf='a' adminlang='en' srclang='en' "
        )
        text = f'<?xml version="1.0" encoding="ENC"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">{header}'
        text += f"datatype='x'/><body>{chr(10).join(self.several(unit))}<!-- <tu> --></body></tmx>\n"
        encoding = self.rng.choice(["utf-8", "utf-16", "iso-8859-1"])
        return text.replace("ENC", encoding).encode(encoding, "xmlcharrefreplace")

    def make_csv(self) -> bytes:
        def cell() -> str:
            quoted = '"' + self.text().replace("his", 'his "own"\n').replace('"', '""') + '"'
            return self.rng.choice([quoted, "12.5", "", self.text().replace(",", "")])

        rows = self.several(lambda: f"{self.rng.random()},{cell()},{cell()}")
        return "\r\n".join(["id,first,second", *rows, ""]).encode()

    def make_json(self) -> bytes:
        value = {
            "title": self.text(),
            "items": self.several(self.text),
            "n": 1.50,
            "deep": {"key": [self.text(), None]},
        }
        return json.dumps(value, ensure_ascii=self.rng.random() < 0.5, indent=self.rng.choice([None, 3])).encode()

    def make_arb(self) -> bytes:
        messages = {f"text{i}": text for i, text in enumerate(self.several(self.text))}
        value = {"@@locale": "en", **messages, "@text0": {"description": self.text(), "placeholders": {"n": {}}}}
        return json.dumps(value, ensure_ascii=self.rng.random() < 0.5, indent=2).encode()

    def make_properties(self) -> bytes:
        encoding = self.rng.choice(["utf-8", "iso-8859-1", "ascii"])

        def entry() -> str:
            key = self.rng.choice(["a.b", "a\\ b", "a\\=b", "日本\\:"])
            separator = self.rng.choice(["=", " = ", ":", " ", "\t:\t"])
            near = self.rng.choice(["\\tnear", "\\\n   near", "\\u00e9\\ud83d\\ude00", "\\n"])
            value = self.text().replace("near", near)
            return self.rng.choice([f"{key}{separator}{value}", f"  ! {self.text()} \\", "", key])

        text = self.rng.choice(["\n", "\r\n"]).join(self.several(entry))
        return "".join(java_char(char, encoding) for char in text).encode(encoding)

    def make_strings_xml(self) -> bytes:
        def escape(text: str) -> str:
            return html.escape(text, quote=False).replace("'", "\\'")

        code = '<xliff:g id="n">%1$s</xliff:g>'
        kinds = [
            lambda: f'<string name="a">{self.phrase(escape)}</string>',
            lambda: f'<string name="b">{escape(self.text(3))} {code}  {escape(self.text(3))}</string>',
            lambda: f'<string name="c" translatable="false">{escape(self.text())}</string>',
            lambda: f'<plurals name="d"><item quantity="other">"{escape(self.text())}  "</item></plurals><!-- x -->',
            lambda: f"<string-array><item>\\ud83d\\ude00 {escape(self.text(9))}\\u0020\\n</item></string-array>",
            lambda: '<string name="f">@string/a</string><color name="x">#fff</color>',
        ]
        body = "\n  ".join(self.several(lambda: self.rng.choice(kinds)()))
        xliff = "urn:oasis:names:tc:xliff:document:1.2"
        return f'<?xml version="1.0"?>\n<resources xmlns:xliff="{xliff}">\n  {body}\n</resources>\n'.encode()

    def make_resx(self) -> bytes:
        kinds = [
            lambda: f'<data name="a">\n<value>{html.escape(self.text())}</value><comment>c</comment></data>',
            lambda: '<data name="b" type="System.Int32, mscorlib"><value>twelve</value></data>',
            lambda: '<data name="&gt;&gt;c.Name" xml:space="preserve"><value>label</value></data>',
        ]
        body = "\n".join(self.several(lambda: self.rng.choice(kinds)()))
        return f'<?xml version="1.0"?><root><resheader name="v"><value>two</value></resheader>{body}</root>'.encode()

    def make_ass(self) -> bytes:
        def line() -> str:
            text = self.text(5).replace("sees", self.rng.choice([r"{\i1}sees{\i0}", r"sees\N", r"sees\h", "sees, and"]))
            kinds = [f"Dialogue: 0,{text}", "Comment: 0,note", r"Dialogue: 0,{\p1}m 0 l 1{\p0}"]
            return self.rng.choice(kinds).replace("0,", "0,0:00:01.00,0:00:04.50,x,Tom,0,0,0,,", 1)

        events = "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text"
        head = "[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\nFormat: Name, Fontsize\nStyle: x,20\n\n[Events]\n"
        return "\r\n".join([head + events, *self.several(line), ""]).encode()

    def _runs(self, text_tag: str, run_tag: str, formats: list[str]) -> str:
        """Runs of Office, in some of which the format differs."""

        def run() -> str:
            text = html.escape(self.text(3), quote=False) + self.rng.choice([" ", ""])
            return f"<{run_tag}>{self.rng.choice(formats)}<{text_tag}>{text}</{text_tag}></{run_tag}>"

        return "".join(self.several(run, 4))

    def make_pptx(self) -> bytes:
        formats = ["", '<a:rPr lang="en-US" dirty="0"/>', '<a:rPr lang="de" b="1"><a:solidFill/></a:rPr>']
        blocks = [
            lambda: f"<a:p>{self._runs('a:t', 'a:r', formats)}<a:endParaRPr/></a:p>",
            lambda: f"<a:p>{self._runs('a:t', 'a:r', formats)}<a:br/>{self._runs('a:t', 'a:r', formats)}</a:p>",
            lambda: '<a:p><a:fld type="slidenum"><a:rPr/><a:t>page 3</a:t></a:fld></a:p>',
        ]

        def part(name: str) -> str:
            body = "".join(self.several(lambda: self.rng.choice(blocks)()))
            body += "<a:p><a:r><a:t>A house</a:t></a:r></a:p>"
            return f'<p:{name} xmlns:p="p" xmlns:a="{DRAWING}"><a:txBody>{body}</a:txBody></p:{name}>'

        types = {"ppt/slides/slide1.xml": "presentationml.slide", "ppt/notes.xml": "presentationml.notesSlide"}
        parts = dict(zip(types, (part("sld"), part("notes")), strict=True))
        return zipped({"[Content_Types].xml": office_types(types), "ppt/presentation.xml": "<p/>", **parts})

    def make_xlsx(self) -> bytes:
        def escaped(tag: str) -> str:
            return f"<{tag}>{html.escape(self.text(4), quote=False)}</{tag}>"

        formats = ["", "<rPr><b/></rPr>", '<rPr><sz val="12"/></rPr>']
        kinds = [
            lambda: f"<si>{escaped('t')}</si>",
            lambda: f"<si>{self._runs('t', 'r', formats)}<rPh sb='0' eb='1'><t>no text</t></rPh></si>",
            lambda: "<si><t>Unit price</t></si>",
        ]
        shared = "".join([*self.several(lambda: self.rng.choice(kinds)()), "<si><t>A house</t></si>"])
        cells = f'<c r="A1" t="inlineStr"><is>{escaped("t")}</is></c><c r="B1"><f>LEN("dog")</f><v>3</v></c>'
        types = {
            "xl/sharedStrings.xml": "spreadsheetml.sharedStrings",
            "xl/sheet.xml": "spreadsheetml.worksheet",
            "xl/table.xml": "spreadsheetml.table",
        }
        texts = (
            f'<sst xmlns="{SPREADSHEET}">{shared}</sst>',
            f'<worksheet xmlns="{SPREADSHEET}"><sheetData><row>{cells}</row></sheetData></worksheet>',
            f'<table xmlns="{SPREADSHEET}"><tableColumn id="1" name="Unit price"/></table>',
        )
        return zipped({"[Content_Types].xml": office_types(types), **dict(zip(types, texts, strict=True))})

    def make_odt(self) -> bytes:
        def text(count: int = 4) -> str:
            return html.escape(self.text(count), quote=False)

        note = "<text:note><text:note-citation>1</text:note-citation><text:note-body>{}</text:note-body></text:note>"
        kinds = [
            lambda: f"<text:h>{text()}</text:h>",
            lambda: f'<text:p>{text()} <text:span text:style-name="a">{text()}</text:span> {text()}</text:p>',
            lambda: f"<text:p>{text()}<text:tab/>{text()}<text:s/>{text()}<text:line-break/>{text()}</text:p>",
            lambda: f"<text:p>{text()}.{note.format(f'<text:p>{text()}</text:p>')} {text()}</text:p>",
            lambda: f"<text:p><draw:frame><text:p>{text()}</text:p></draw:frame></text:p>",
            lambda: "<text:p/><!-- text -->",
        ]
        body = "\n".join([*self.several(lambda: self.rng.choice(kinds)()), "<text:h>A house</text:h>"])
        head = 'xmlns:office="o" xmlns:text="t" xmlns:draw="d"'
        content = f"<office:document-content {head}><office:text>{body}</office:text></office:document-content>"
        return zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})

    def make_epub(self) -> bytes:
        pages = {f"text/page {i}.xhtml": self.make_html().decode() for i in range(self.rng.randint(1, 3))}
        items = "".join(
            f'<item href="{name.replace(" ", "%20")}" media-type="application/xhtml+xml"/>' for name in pages
        )
        items += '<item href="picture.svg" media-type="image/svg+xml"/>'
        items += '<item href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        container = '<container><rootfiles><rootfile full-path="OPS/a.opf"/></rootfiles></container>'
        package = f"<package><metadata><title>The dog</title></metadata><manifest>{items}</manifest></package>"
        files = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OPS/a.opf": package}
        files |= {f"OPS/{name}": page for name, page in pages.items()}
        files["OPS/picture.svg"] = "<svg><text>dog</text></svg>"
        files["OPS/toc.ncx"] = f"<ncx><navLabel><text>{html.escape(self.text())}</text></navLabel></ncx>"
        return zipped(files)

    def make_docx(self) -> bytes:
        import docx

        document = docx.Document()
        for _ in range(self.rng.randint(1, 6)):
            paragraph = document.add_paragraph(self.text(4) + " ")
            for _ in range(self.rng.randint(0, 3)):
                run = paragraph.add_run(self.text(3) + self.rng.choice([" ", "", "\t"]))
                run.bold = self.rng.random() < 0.5
        document.add_table(1, 2).cell(0, 1).text = self.text()
        document.sections[0].header.paragraphs[0].text = self.text()
        file = io.BytesIO()
        document.save(file)
        return file.getvalue()


def zipped(files: dict[str, str]) -> bytes:
    """An archive of these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return file.getvalue()


def office_types(parts: dict[str, str]) -> str:
    """The member [Content_Types].xml of an Office document with parts of these types."""
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/>'
        for name, kind in parts.items()
    )
    return f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{overrides}</Types>'


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
