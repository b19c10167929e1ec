"""Commands: evaluation.

evaluate   scores of translations
bench      speed of translation
reproduce  claims of the literature
"""
