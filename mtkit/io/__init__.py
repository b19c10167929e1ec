"""Disk, locks and network.

files          atomic, durable writes; content hashes; operating system errors as MtkitError
json_text      JSON of others, or damaged, as ValueError
records        small files that carry their own checksum
temporary      names of temporary files, and removal of those of killed processes
lock           exclusive locks of run folders and outputs
growing_file   one output file under the name FILE.part until it is complete
part_file      output that grows line by line and can be resumed
fetch          downloads of known corpora, with their URLs and checksums
cpu_quota      cores that this process may use, and threads of torch on them
printable      text that people read on a terminal, without control characters
table          tables as text, Markdown, LaTeX, TSV and JSON
counts         counts with their nouns, for sentences
"""
