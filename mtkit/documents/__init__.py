"""Documents: readers and writers that find the text in a file and replace nothing else.

A file is read as a stream of stretches, such as a translation unit or a whole page, and each stretch has text units: a
text with inline marks, and the range of characters that its translation takes. Memory is bounded by a stretch.

unit         text units, and the replacement of units in a stretch
message      ICU messages: the texts around and inside their arguments
format       base class of the formats: what each states and overrides
encoding     encodings: byte order marks, names, and a guess
reading      decoding in chunks, and stretches of elements, entries and records
source       a document that is decoded and checked while it is read
markup       tags of XML and HTML: finding them, text with inline marks
formats/     a module for each format
choose       the table of all formats by the ends of names; the names of plain text
translate    translation of a document
pairs        pairs of source and target, streamed from the formats that have both
"""
