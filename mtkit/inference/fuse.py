"""Choice of the fused decoder: for which models it stands in."""

from __future__ import annotations

from mtkit.inference.fused_decoder import FusedTransformer
from mtkit.inference.known_layers import agree, is_known_decoder_layer, share_rotations
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.model import Embedding, Transformer


def can_be_fused(model: TranslationModel) -> bool:
    """Return whether a decoder consists of the layers of known_layers.py, and the fused step computes the same.

    A changed layer is therefore never overridden.
    """
    return (
        type(model) is Transformer
        and type(model.tgt_embedding) is Embedding
        and all(is_known_decoder_layer(layer) for layer in model.decoder)
        and share_rotations(list(model.decoder))
        and agree(model, FusedTransformer(model))
    )
