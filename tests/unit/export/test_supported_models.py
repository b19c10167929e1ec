"""Allow lists of the exporters."""

from __future__ import annotations

from dataclasses import fields

import pytest

from mtkit.config import config
from mtkit.errors import UsageError
from mtkit.export.supported_models import CTRANSLATE2, ONNX, SupportedModels
from mtkit.layers.config import BatchNormConfig, PreNormConfig, SinusoidalConfig
from mtkit.models.transformer.checks import AllowList
from mtkit.models.transformer.config import TransformerConfig

both_targets = pytest.mark.parametrize("supported", [CTRANSLATE2, ONNX], ids=lambda supported: supported.target)


@config
class ToyPositionConfig:
    """A new kind, which no exporter knows."""

    kind: str = "toy"


@config
class DerivedPositionConfig(SinusoidalConfig):
    """A new kind whose configuration inherits from that of a supported one."""

    kind: str = "derived"


@both_targets
def test_listed_keys_are_keys_of_the_configuration(supported: SupportedModels) -> None:
    keys = {field.name for field in fields(TransformerConfig)}
    allowed = supported.allowed
    assert allowed.any_value <= keys
    assert set(allowed.kinds) <= keys - allowed.any_value


@both_targets
def test_defaults_are_supported(supported: SupportedModels) -> None:
    config = TransformerConfig(d_model=8, num_heads=2)
    assert supported.check(config) is config


@both_targets
def test_a_new_kind_is_refused_until_it_is_listed(supported: SupportedModels) -> None:
    config = TransformerConfig(d_model=8, num_heads=2, encoder_positions=SinusoidalConfig())
    object.__setattr__(config, "encoder_positions", ToyPositionConfig())
    with pytest.raises(UsageError, match=r"model\.encoder_positions\.kind: toy: not supported by \w+ export"):
        supported.check(config)


@both_targets
def test_a_kind_derived_from_a_supported_one_is_refused(supported: SupportedModels) -> None:
    config = TransformerConfig(d_model=8, num_heads=2)
    object.__setattr__(config, "encoder_positions", DerivedPositionConfig())
    with pytest.raises(UsageError, match=r"model\.encoder_positions\.kind: derived: not supported by \w+ export"):
        supported.check(config)


def test_an_unlisted_key_must_have_its_default() -> None:
    config = TransformerConfig(d_model=8, num_heads=2)
    allowed = CTRANSLATE2.allowed
    supported = SupportedModels("Toy", AllowList(allowed.any_value - {"d_model"}, allowed.kinds))
    with pytest.raises(UsageError, match=r"^model\.d_model: 8: not supported by Toy export$"):
        supported.check(config)


@both_targets
def test_norms_without_an_equivalent_and_pruned_heads_are_refused(supported: SupportedModels) -> None:
    config = TransformerConfig(
        d_model=8, num_heads=2, residual=PreNormConfig(norm=BatchNormConfig()), value_head_dim=6, cross_heads=[1, 2, 2]
    )
    with pytest.raises(UsageError) as error:
        supported.check(config)
    for key in ("residual.norm.kind: batch", "value_head_dim: 6", "cross_heads: [1, 2, 2]"):
        assert f"model.{key}: not supported by {supported.target} export" in str(error.value)
