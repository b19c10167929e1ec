"""Errors about the settings of a subword model, which have other names in a recipe than on a command line."""

from __future__ import annotations

from dataclasses import dataclass

from mtkit.errors import DataError
from mtkit.text.config import TokenizerConfig


@dataclass(frozen=True, kw_only=True)
class SettingNames:
    """Names of the settings that a message proposes to change, by default the keys of a recipe.

    Attributes:
        min_frequency: occurrences of a word or character of the vocabulary.
        character_coverage: share of the characters in the vocabulary; None: the user cannot set it.
    """

    vocab_size: str = "tokenizer.vocab_size"
    min_frequency: str = "tokenizer.min_frequency"
    character_coverage: str | None = "tokenizer.character_coverage"

    def too_large(self, config: TokenizerConfig, files: str, largest: int) -> DataError:
        """Return the error of a vocabulary that is larger than a text can give."""
        return DataError(
            f"{self.vocab_size}: {config.vocab_size} is too large for the text of {files}; the maximum for model_type "
            f"{config.model_type} is {largest}"
        )

    def too_small(self, config: TokenizerConfig, files: str, *, smallest: int, reserved: int) -> DataError:
        """Return the error of a vocabulary without room for its characters.

        Args:
            reserved: number of tokens that are no text.
        """
        is_too_small = f"{self.vocab_size}: {config.vocab_size} is too small"
        if config.model_type == "byte_bpe":
            return DataError(
                f"{is_too_small}: the reserved tokens and the 256 bytes of a byte_bpe model need at least {smallest}; "
                "raise it"
            )
        other = "" if self.character_coverage is None else f", or lower {self.character_coverage}"
        return DataError(
            f"{is_too_small}: the {reserved} reserved tokens and the characters of {files} need at least {smallest}; "
            f"raise it{other}"
        )

    def too_rare(self, config: TokenizerConfig, files: str, most: int) -> DataError:
        """Return the error of a vocabulary that would be empty; `most`: occurrences of the most frequent word."""
        return DataError(
            f"{self.min_frequency}: no {config.model_type} of {files} occurs {config.min_frequency} times; lower it to "
            f"at most {most}"
        )


RECIPE_KEYS = SettingNames()
