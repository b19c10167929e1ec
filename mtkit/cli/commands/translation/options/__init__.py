"""Options of `mtkit translate` by concern: each module has the options and one object that acts on them."""
