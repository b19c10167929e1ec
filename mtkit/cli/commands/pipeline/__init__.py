"""Commands: the whole pipeline.

run  all stages of a recipe, from text to scores
new  a recipe for two text files
"""
