"""From text files to a complete recipe.

languages    languages of two files, and mistakes such as swapped files
held_out     files of train, valid and test, split off a corpus
text_checks  swapped sides, other languages and one text twice in the files of a recipe
new_recipe   the recipe for two text files
choices      values for the omitted keys of a run's recipe, within a time budget
"""
