"""Server of translations, `mtkit serve`: an application over HTTP, and processes that translate.

settings       models and limits of a server
server         the process: it listens, and handles signals
fronts/        interfaces over HTTP
core           lines to translations, through cache, queue and models
registry       models: directions, loading on demand, exchange for new versions
processes/     processes that translate
fair_queue     texts that wait for a model
pieces         parts of long lines
cache          translations that were made before
clients        API keys, and limits on how often a client may ask
languages      codes and names
metrics        numbers for Prometheus
request_error  errors of requests
"""
