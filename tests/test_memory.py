"""A call that needs too much memory is refused before it allocates anything, and the largest size
is named."""

import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch

import alibi_viz as av
from alibi_viz import memory

SLOPES = av.alibi_slopes(8)
# From a server that only imports: memory that other tests have freed here would be used again.
get_context("forkserver").set_forkserver_preload([__name__])
own_process = partial(ProcessPoolExecutor, 1, get_context("forkserver"))
CALLS: dict[str, Callable[[int], Any]] = {  # with a number of keys
    "bias": lambda keys: av.alibi_bias(SLOPES, keys),
    "rounded up": av.AlibiBias(8),
    "mask": av.causal_mask,
    "one query": lambda keys: av.alibi_bias(SLOPES, 1, keys),
    "key form": lambda keys: av.alibi_bias(SLOPES, keys, form="key"),
    "half": lambda keys: av.alibi_bias(
        SLOPES, keys, positions=torch.zeros(1).long().expand(keys), dtype=torch.half
    ),
    "batch": lambda keys: av.alibi_bias(
        SLOPES, keys, positions=torch.zeros(1).long().expand(2, keys)
    ),
    "encoder": lambda keys: av.alibi_bias(SLOPES, keys, form="symmetric"),
    "trace": lambda keys: av.attention_trace(
        *2 * [torch.zeros(1, 1, 1).expand(2, 4, keys, 1)], SLOPES[:4]
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_too_large_a_call_is_refused_and_the_largest_is_named(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        memory, "free_memory", lambda device: 2 * 2**30
    )  # so a call may take half a GiB
    with pytest.raises(
        MemoryError, match=r"^key_length=100000000 would take .* memory \(2\.0 GiB\);"
    ) as error:
        CALLS[call](100_000_000)  # if this were tried, torch would raise a RuntimeError
    fits = int(re.findall(r"fits is (\d+)$", str(error.value))[0])
    CALLS[call](fits)
    with pytest.raises(MemoryError, match=f"^key_length={fits + 1} "):
        CALLS[call](fits + 1)


@pytest.mark.parametrize(
    ("free", "fits"), [(0, 0), (2**31, 23_166)]
)  # 8 bytes per key, and one with each query
def test_a_quarter_of_what_is_free_fits(
    free: int, fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda device: free)
    with pytest.raises(
        MemoryError, match=rf"^key_length=1048576 would take 1,024\.0 GiB, .* fits is {fits}$"
    ):
        av.causal_mask(2**20)
    memory.check_memory("bytes", free // 4, int)  # a quarter itself
    query = torch.zeros(1, 1, 1, dtype=torch.half).expand(2, 4, 2**20, 1)
    with pytest.raises(
        MemoryError, match=rf"would take {6 * 4 * 2 * 4 * 2**10:,}\.0 GiB"
    ):  # six results in float32
        av.attention_trace(query, query, None)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_takes_the_memory_that_it_announces(call: str) -> None:
    with own_process() as pool:  # whose peak is that of the call
        assert 0.5 < pool.submit(growth, call).result() / 2**29 < 1.1


def growth(call: str) -> int:
    """The bytes that the largest call that fits adds to the peak of this process."""
    memory.free_memory = lambda device: 2 * 2**30  # type: ignore[assignment, misc]  # in this process
    CALLS[call](100)
    with pytest.raises(MemoryError) as error:
        CALLS[call](100_000_000)
    before = peak()
    CALLS[call](int(str(error.value).split()[-1]))
    return peak() - before


def peak() -> int:
    return 1024 * int(re.findall("VmHWM: *(.*) kB", Path("/proc/self/status").read_text())[0])


def test_a_container_limits_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    monkeypatch.setattr(memory, "_SYSTEM", tmp_path / "meminfo")
    assert memory.free_memory() is memory.free_memory("meta") is None, "the system doesn't say"
    (tmp_path / "meminfo").write_text("MemTotal: 900000 kB\nMemAvailable: 300000 kB\n")
    assert memory.free_memory() == 307_200_000
    (tmp_path / "memory.stat").write_text(
        "anon 70000000\ninactive_file 30000000\n"
    )  # of files, which can go
    for limit, used, free in [
        (3 * 10**8, 10**8, 23 * 10**7),
        (3 * 10**8, 34 * 10**7, 0),
        ("max", 0, 307_200_000),
    ]:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
        assert memory.free_memory() == free
