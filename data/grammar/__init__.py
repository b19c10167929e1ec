"""A small bilingual grammar: it says one thing in English and the same thing in German."""
