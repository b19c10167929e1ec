"""Options of `mtkit translate` by concern: each module has the options and one object that acts on them.

document  a document instead of lines
source    the lines to translate, their constraints
search    settings of the search, a language model that ranks the hypotheses
output    files and forms of the translations
"""
