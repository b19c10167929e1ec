"""Keys of a bag-of-words model in a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mtkit.config import config
from mtkit.layers.sizes import PositiveWidth
from mtkit.models.capabilities import ModelConfigBase, TieMode

if TYPE_CHECKING:
    from mtkit.models.bag_of_words.model import BagOfWords


@config
class BagOfWordsConfig(ModelConfigBase):
    """Bag of words (see BagOfWords)."""

    kind: Literal["bag_of_words"] = "bag_of_words"
    # Width of embeddings and decoder states. Default: enough for a toy task.
    d_model: PositiveWidth = 64
    # Which of source embeddings, target embeddings and output projection are one matrix. Default: all, the smallest.
    tied_embeddings: TieMode = "all"

    def build(self, src_vocab: int, tgt_vocab: int) -> BagOfWords:
        """Build the model."""
        from mtkit.models.bag_of_words.model import BagOfWords

        from mtkit.models.embeddings import build_embeddings

        return BagOfWords(build_embeddings(src_vocab, tgt_vocab, self.d_model, tied=self.tied_embeddings, bias=True))
