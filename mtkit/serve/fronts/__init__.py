"""Interfaces of the server over HTTP.

app             all routes with their headers, limits and errors
requests        fields of requests, which are JSON or forms
sites           origin of a request: proxies, names of the server, pages of other sites
exchange        one request: body and answer within their limits, a client that vanishes
libretranslate  the interface of LibreTranslate
files           its documents
suggestions     its suggestions of translations
deepl           the interface of DeepL
glossaries      its glossaries
document_jobs   translations of documents, and their progress
page            the page, and what it asks for
"""
