"""Disk, locks and network.

files          atomic, durable writes; content hashes; operating system errors as MtkitError
lock           exclusive lock of a run folder
fetch          downloads of known corpora
known_corpora  their URLs and checksums
"""
