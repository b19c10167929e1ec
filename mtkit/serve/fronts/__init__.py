"""Interfaces of the server over HTTP.

app             all routes with their headers, limits and errors
requests        fields of requests, which are JSON or forms
exchange        one request: body and answer within their limits, a client that vanishes
libretranslate  the interface of LibreTranslate
"""
