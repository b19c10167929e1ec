"""From text files to a complete recipe.

choices   the recipe of a command, with choices for its omitted keys
"""
