import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from alibi_viz import alibi_attention, alibi_slopes
from alibi_viz.attention.inputs import AttentionInputs


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = torch.randn(3, 1, 4, 6, 8)
    return q, k, v


def test_check_leaves_the_inputs_unchanged_under_autocast() -> None:
    q, k, v = qkv()
    inputs = AttentionInputs(q, k, v, alibi_slopes(4))
    with torch.autocast("cpu", torch.bfloat16):
        inputs.check()
    assert inputs.query is q
    assert inputs.key is k
    assert inputs.value is v


def test_eager_computes_with_the_cast_value_under_autocast() -> None:
    """Key and value are expanded to all heads in the dtype of autocast, not in float32."""

    class Record(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.dtypes: list[torch.dtype] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor) and result.shape == (1, 4, 6, 8):
                self.dtypes.append(result.dtype)
            return result

    q, k, v = qkv()
    with torch.autocast("cpu", torch.bfloat16), Record() as record:
        alibi_attention(q, k[:, :2], v[:, :2], alibi_slopes(4), backend="eager")
    assert set(record.dtypes) == {torch.bfloat16}
