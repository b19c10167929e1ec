"""Structure of a text above its tokens."""
