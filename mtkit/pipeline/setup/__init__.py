"""From text files to a complete recipe.

languages    languages of two files; mistakes in texts and in the files of a recipe, such as swapped sides and copies
held_out     files of train, valid and test, split off a corpus
new_recipe   the recipe for two text files
choices      values for the omitted keys of a run's recipe, within a time budget
"""
