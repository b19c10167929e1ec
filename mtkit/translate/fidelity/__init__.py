"""Fidelity of translations: spans of the source and terms of a glossary that they must contain."""
