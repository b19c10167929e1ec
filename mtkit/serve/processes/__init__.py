"""Processes that translate for the server: a crash of one ends no request.

messages  JSON messages over sockets
worker    process of a model: loads it, and forks workers
document  process that reads and writes documents
pool      the workers of a model, as the server sees them
"""
