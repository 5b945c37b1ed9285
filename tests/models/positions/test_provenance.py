"""Own position methods are told apart by what they compute, not only by their text."""

import functools
import hashlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from alibi_viz import lab, laws
from alibi_viz.models import Position, WindowWithSinks, provenance

pytestmark = pytest.mark.usefixtures("forget_custom_methods")


class Scaled:
    """Has a law that depends on an attribute."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def scaled(self, distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -self.slope * distance


def with_default(slope: float) -> Any:
    def steep(distance: Tensor, head: int, num_heads: int, slope: float = slope) -> Tensor:
        return -slope * distance

    return steep


def with_closure(slope: float) -> Any:
    def steep(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -slope * distance

    return steep


def with_partial(slope: float) -> Any:
    law: Any = functools.partial(_steep, slope=slope)
    law.__name__ = "steep"
    return law


def _steep(distance: Tensor, head: int, num_heads: int, slope: float) -> Tensor:
    return -slope * distance


def class_in_a_function(slope: float) -> Any:
    class Steep(Position):
        """A constant bias per key."""

        def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
            return -slope * torch.arange(key_length - 1.0, -1, -1).expand(8, query_length, -1)

    return Steep


def class_with_an_attribute(value: float) -> Any:
    class Steep(Position):
        """A constant bias per key."""

        slope = value

        def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
            return -self.slope * torch.arange(key_length - 1.0, -1, -1).expand(8, query_length, -1)

    return Steep


STATEFUL = [
    with_default,
    with_closure,
    with_partial,
    lambda slope: Scaled(slope).scaled,
    class_in_a_function,
    class_with_an_attribute,
]


@pytest.mark.parametrize("make", STATEFUL)
def test_equal_text_with_another_value_is_another_method(make: Any) -> None:
    for slope in (1.0, 2.0):
        bias = lab.make_model(make(slope)).transformer.position.bias(1, 3)  # type: ignore[operator]
        assert bias[0, 0].tolist() == [-2 * slope, -slope, 0]


@pytest.mark.parametrize("make", STATEFUL)
def test_provenance_includes_the_values_that_a_method_reads(make: Any) -> None:
    one, other = provenance(make(1.0)), provenance(make(2.0))
    assert "slope = 1.0" in one["source"] and "slope = 2.0" in other["source"]
    assert one == provenance(make(1.0)) != other
    assert one["fingerprint"] != other["fingerprint"]


CONSOLE = "def helper(d):\n    return -{} * d\n{}\ndef law(distance, head, num_heads):\n    return {}\n"
BODIES = [
    ("1", "", "helper(distance)"),
    ("2", "", "helper(distance)"),
    ("1", "SLOPE = 1.0", "SLOPE * distance"),
    ("1", "SLOPE = 2.0", "SLOPE * distance"),
    ("1", "SLOPE = torch.arange(300.0)", "SLOPE[distance]"),
    ("1", "SLOPE = torch.ones(300)", "SLOPE[distance]"),
    ("1", "SLOPE = {'a': [1.0]}", "SLOPE['a'][0] * distance"),
    ("1", "SLOPE = {'a': [2.0]}", "SLOPE['a'][0] * distance"),
]


def test_fingerprint_without_source_text_depends_on_the_code_and_the_values() -> None:
    kept = []
    for body in BODIES:
        names: dict[str, Any] = {"__name__": "console", "torch": torch}
        exec(CONSOLE.format(*body), names)
        kept.append(provenance(names["law"]))
    assert {each["source"] for each in kept} == {""}
    assert len({each["fingerprint"] for each in kept}) == len(BODIES)


def test_class_of_a_notebook_is_known_by_its_functions_and_attributes() -> None:
    kept = []
    for slope, sign in ((1.0, "-"), (2.0, "-"), (1.0, "")):
        names: dict[str, Any] = {"__name__": "__main__", "Position": Position}
        body = f"    slope = {slope}\n    def embed(self, tokens, start=0):\n        return {sign}tokens\n"
        exec(f"class Mine(Position):\n{body}", names)
        kept.append(provenance(names["Mine"])["fingerprint"])
    assert len(set(kept)) == 3


def test_method_that_reads_no_values_is_known_by_its_text() -> None:
    for method in (WindowWithSinks, laws.linear):
        text = inspect.getsource(method)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
        assert provenance(method) == {"source": text, "fingerprint": fingerprint}  # type: ignore[arg-type]


def test_fingerprint_is_the_same_in_another_process(tmp_path: Path) -> None:
    text = (
        "import json, torch\nfrom alibi_viz.models import provenance\nSLOPES = {'b': torch.ones(3), 'a': (1, None)}\n"
    )
    text += CONSOLE.format("1", "OTHER = object()", "helper(distance) * SLOPES['b'][0] + (OTHER is None)")
    (tmp_path / "law.py").write_text(text + "if __name__ == '__main__':\n    print(json.dumps(provenance(law)))\n")
    results = [subprocess.run([sys.executable, tmp_path / "law.py"], capture_output=True, check=True) for _ in range(2)]
    one, other = (json.loads(result.stdout) for result in results)
    assert one == other
    assert "# SLOPES = {'a': [1, None], 'b': [1.0, 1.0, 1.0]}" in one["source"]
    assert "def helper" in one["source"] and "OTHER =" not in one["source"]


def test_settings_of_a_run_are_those_of_its_definition() -> None:
    scaled = Scaled(1.0)
    run = lab.Run(scaled.scaled)
    settings = run.settings()
    scaled.slope = 2.0
    assert run.settings() == settings != lab.Run(scaled.scaled).settings()
