"""A small picture for the card of each lesson: its subject, drawn from numbers, but no result."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from alibi_viz import lab, laws
from alibi_viz.figures.theme import WEIGHT_SCALE
from alibi_viz.models.positions.rotary import rotary_frequencies
from alibi_viz.slopes import alibi_slopes

# The plane on which motifs are drawn, in units of an SVG
WIDTH, HEIGHT = 160, 90
LEFT, RIGHT, TOP, BOTTOM = 16, 144, 12, 78
# Colors of the page, which has others when it is dark
ALIBI, SINUSOIDAL, ROTARY = "var(--alibi)", "var(--sinusoidal)", "var(--rotary)"
LIMIT, GRAY, PALE = "var(--limit)", "var(--gray)", "var(--line)"


def motif(lesson: str) -> str:
    """The motif of a lesson as SVG. Raises KeyError for the name of a file that has none."""
    shapes = MOTIFS[lesson]()
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{shapes}</svg>'


def _novel() -> str:
    """A text of 1,024 letters, of which a model has seen as many as the first line has."""
    length = lab.Run.length
    text = bytes(lab.load_text().validation[: 16 * length].tolist()).decode()
    letter = (RIGHT - LEFT) / length
    shapes = [_line((LEFT, TOP + 3), (RIGHT, TOP + 3), LIMIT, width=1.5)]
    for row in range(16):
        y = TOP - 1 + 4.5 * row + (2 if row else 0)
        words = []
        start = 0
        for word in text[row * length : (row + 1) * length].split(" "):
            words.append(f"M{LEFT + letter * start:.1f},{y:.1f}h{letter * len(word):.1f}")
            start += len(word) + 1
        shapes.append(_path("".join(words), ALIBI if row == 0 else PALE, width=2))
    return "".join(shapes)


def _fan() -> str:
    """What each of eight heads subtracts."""
    shapes = []
    for slope in alibi_slopes(8).tolist():
        # From the token itself on the right, until a line leaves the picture
        depth = min(BOTTOM - TOP, slope * (RIGHT - LEFT))
        shapes.append(_line((RIGHT, TOP), (RIGHT - depth / slope, TOP + depth), ALIBI))
    return "".join(shapes)


def _content_and_distance() -> str:
    """What a match adds to each of 16 keys, and what its distance subtracts."""
    content = torch.rand(16, generator=torch.Generator().manual_seed(5))
    middle = (TOP + BOTTOM) / 2
    shapes = []
    for distance, match in enumerate(content.tolist()):
        x = RIGHT - 8 * distance - 6
        shapes.append(_rect(x, middle - 30 * match, 5, 30 * match, ALIBI))
        shapes.append(_rect(x, middle, 5, 2 * distance, SINUSOIDAL))
    return "".join(shapes)


def _clocks() -> str:
    """The hands of eight rotary clocks at position 100."""
    shapes = []
    for n, turn in enumerate((100 * rotary_frequencies(16)).tolist()):
        x, y = 32 + 32 * (n % 4), 26 + 38 * (n // 4)
        hand = (x + 12 * torch.tensor(turn).sin().item(), y - 12 * torch.tensor(turn).cos().item())
        shapes.append(f'<circle cx="{x}" cy="{y}" r="14" fill="none" stroke="{PALE}"/>')
        shapes.append(_line((x, y), hand, ROTARY, width=2))
    return "".join(shapes)


def _sliders() -> str:
    """The slopes of eight heads, to be moved."""
    shapes = []
    for n, slope in enumerate(alibi_slopes(8).log2().tolist()):
        x = 24 + 16 * n
        y = TOP - 8 * slope - 4
        shapes.append(_line((x, TOP), (x, BOTTOM), PALE, width=2))
        shapes.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{ALIBI}"/>')
    return "".join(shapes)


def _far_keys() -> str:
    """All pairs of a text of 1,024 letters: those within 64 letters were seen in training."""
    x, y = (RIGHT - LEFT) / 16, (BOTTOM - TOP) / 16
    far = f"M{LEFT},{TOP + y}V{BOTTOM}H{RIGHT - x}Z"
    near = f"M{LEFT},{TOP}V{TOP + y}L{RIGHT - x},{BOTTOM}H{RIGHT}Z"
    return (
        f'<path d="{far}" fill="{PALE}"/><path d="{near}" fill="{ALIBI}"/>'
        + _line((LEFT, TOP + y), (RIGHT - x, BOTTOM), LIMIT, width=1.5)
        + _text(52, 68, "?", size=28)
    )


def _laws() -> str:
    """What five laws leave to each distance."""
    distance = torch.arange(0, 65)
    colors = {
        laws.linear: ALIBI,
        laws.square_root: SINUSOIDAL,
        laws.logarithmic: ROTARY,
        laws.power: GRAY,
        laws.window: PALE,
    }
    shapes = []
    for law, color in colors.items():
        left = law(distance, 3, 8).exp()
        points = zip(RIGHT - 2 * distance, BOTTOM - (BOTTOM - TOP) * left, strict=True)
        shapes.append(_curve(points, color))
    return "".join(shapes[::-1])


def _two_heatmaps() -> str:
    """The same head of correct and of other code."""
    query, key = torch.tril_indices(12, 12)
    palette = WEIGHT_SCALE.palette
    shapes = []
    for left, distance in ((LEFT, query - key), (RIGHT - 60, key)):
        colors = palette[WEIGHT_SCALE.indices((-distance / 4).exp().numpy())]
        for row, column, color in zip(query.tolist(), key.tolist(), colors, strict=True):
            x, y = left + 5 * column, 15 + 5 * row
            shapes.append(_rect(x, y, 5, 5, f"#{bytes(color.tolist()).hex()}"))
    return "".join(shapes)


def _distances() -> str:
    """The matrix that is built first."""
    shapes = []
    for query in range(5):
        for key in range(query + 1):
            number = f"{key - query}".replace("-", "\N{MINUS SIGN}")
            shapes.append(_text(36 + 22 * key, 22 + 15 * query, number, size=11))
    return "".join(shapes)


def _intervals() -> str:
    """The 95% intervals of the means of 18 samples whose true mean is zero."""
    samples = torch.randn(18, 10, generator=torch.Generator().manual_seed(1))
    means = samples.mean(dim=1)
    margins = 2.26 * samples.std(dim=1) / 10**0.5
    middle = (LEFT + RIGHT) / 2
    shapes = [_line((middle, TOP - 4), (middle, BOTTOM + 4), PALE)]
    for n, (mean, margin) in enumerate(zip(means.tolist(), margins.tolist(), strict=True)):
        y = TOP + 4 * n
        color = SINUSOIDAL if abs(mean) > margin else ALIBI
        low, high = middle + 48 * (mean - margin), middle + 48 * (mean + margin)
        shapes.append(_line((low, y), (high, y), color))
        shapes.append(f'<circle cx="{middle + 48 * mean:.1f}" cy="{y}" r="1.8" fill="{color}"/>')
    return "".join(shapes)


def _rounding() -> str:
    """Distances around 512, and what bfloat16 makes of them."""
    distance = torch.arange(496, 529, dtype=torch.float32)
    x = LEFT + 4 * (distance - 496)
    exact, rounded = (BOTTOM - 2 * (d - 496) for d in (distance, distance.bfloat16().float()))
    steps = torch.stack([x, rounded, x + 4, rounded], dim=1).reshape(-1, 2)[:-1]
    return _curve(zip(x, exact, strict=True), GRAY, width=1) + _curve(steps, ALIBI)


MOTIFS: Mapping[str, Callable[[], str]] = {
    "00_start_here": _novel,
    "01_the_line": _fan,
    "02_content_against_distance": _content_and_distance,
    "03_clocks": _clocks,
    "04_surgery": _sliders,
    "05_why_it_extrapolates": _far_keys,
    "06_what_happened_next": _laws,
    "07_spot_the_bug": _two_heatmaps,
    "08_build_it_yourself": _distances,
    "09_the_study": _intervals,
    "10_for_implementers": _rounding,
}


def _path(d: str, color: str, width: float) -> str:
    return f'<path d="{d}" fill="none" stroke="{color}" stroke-width="{width}"/>'


def _line(
    start: tuple[float, float], end: tuple[float, float], color: str, width: float = 1.5
) -> str:
    (x, y), (end_x, end_y) = start, end
    return _path(f"M{x:.1f},{y:.1f}L{end_x:.1f},{end_y:.1f}", color, width)


def _curve(points: Iterable[Tensor | tuple[Tensor, Tensor]], color: str, width: float = 2) -> str:
    places = [f"{float(x):.1f},{float(y):.1f}" for x, y in points]
    return _path("M" + "L".join(places), color, width)


def _rect(x: float, y: float, width: float, height: float, color: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height:.1f}" fill="{color}" '
        'shape-rendering="crispEdges"/>'
    )


def _text(x: float, y: float, text: str, size: float) -> str:
    style = f"font-size: {size}px; fill: {GRAY}"
    return f'<text x="{x}" y="{y}" text-anchor="middle" style="{style}">{text}</text>'
