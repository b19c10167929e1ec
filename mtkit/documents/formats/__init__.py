"""Formats of documents: where their text is, and how it is written.

html             HTML
inline_xml       texts with tags inside their sentences
markdown         Markdown, with its blocks of HTML
markdown_inline  Markdown inside a block: emphasis, links, code and line breaks
exchange         translation memories (TMX) and XLIFF 1.2 and 2
docx             Word documents
subtitles        SubRip and WebVTT
gettext          PO files
tables           CSV and TSV
json_values      strings of JSON
spreadsheet      pairs of XLSX workbooks
"""
