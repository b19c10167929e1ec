"""Disk, locks and network.

files          atomic, durable writes; content hashes; operating system errors as MtkitError
records        small files that carry their own checksum
temporary      names of temporary files, and removal of those of killed processes
lock           exclusive locks of run folders and outputs
part_file      output that grows line by line and can be resumed
fetch          downloads of known corpora
known_corpora  their URLs and checksums
"""
