"""Line charts as SVG files. The colors are readable on light and on dark backgrounds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

Point: TypeAlias = tuple[float, float]

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 44, 52
"""Margins in pixels. The legend is on the right."""
LEGEND_LINE: Final = 20
COLORS: Final = (
    "#3b82f6",
    "#d9730d",
    "#2e9e5b",
    "#9b6ad6",
    "#d6455d",
    "#14919b",
    "#a16207",
    "#777",
)
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#808080}.title{font-size:14px;font-weight:600}"
    ".grid{stroke:#777;stroke-opacity:.25}.line{fill:none;stroke-width:2}"
)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis with the label and unit in `label`. `log`: whether it is logarithmic; its range then
    consists of whole powers of ten."""

    label: str
    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """Return the position of a value, from 0 to 1."""
        low, high, value = (
            (math.log10(one) for one in (self.low, self.high, max(value, self.low)))
            if self.log
            else (self.low, self.high, value)
        )
        return (value - low) / (high - low)

    def ticks(self) -> list[float]:
        if self.log:
            exponents = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return [10.0**exponent for exponent in exponents]
        step = _nice_step(self.high - self.low)
        return [self.low + step * n for n in range(math.floor((self.high - self.low) / step) + 1)]


def make_axis(label: str, values: Sequence[float], *, log: bool = False) -> Axis:
    """Return an axis for these values. A linear axis begins at zero."""
    if not log:
        step = _nice_step(max(values) or 1)
        return Axis(label, 0, step * math.ceil(max(values) / step - 1e-9) or 1)
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(label, 10.0**low, 10.0 ** max(high, low + 1), log=True)


def line_chart(title: str, x: Axis, y: Axis, lines: Mapping[str, Sequence[Point]]) -> str:
    """Return an SVG document with one line for each name."""
    return "\n".join(_elements(title, x, y, lines)) + "\n"


def _elements(title: str, x: Axis, y: Axis, lines: Mapping[str, Sequence[Point]]) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>'
    )
    yield f'<text class="title" x="{LEFT}" y="22">{escape(title)}</text>'
    for tick in y.ticks():
        at = _y(y, tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
        yield f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{_number(tick)}</text>'
    for tick in x.ticks():
        at = _x(x, tick)
        yield f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text x="{at}" y="{bottom + 18}" text-anchor="middle">{_number(tick)}</text>'
    middle = (LEFT + right) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.label)}</text>'
    yield f'<text x="{LEFT}" y="{TOP - 8}" text-anchor="middle">{escape(y.label)}</text>'
    for number, (name, points) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        path = " ".join(f"{_x(x, a)},{_y(y, b)}" for a, b in points)
        yield f'<polyline class="line" stroke="{color}" points="{path}"/>'
        at = TOP + LEGEND_LINE * number
        ends = f'x1="{right + 16}" x2="{right + 36}" y1="{at}" y2="{at}"'
        yield f'<line class="line" stroke="{color}" {ends}/>'
        yield f'<text x="{right + 42}" y="{at + 4}">{escape(name)}</text>'
    yield "</svg>"


def _x(axis: Axis, value: float) -> float:
    return round(LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT), 1)


def _y(axis: Axis, value: float) -> float:
    return round(HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM), 1)


def _nice_step(span: float) -> float:
    """Return 1, 2 or 5 times a power of ten, so that there are about five steps."""
    power = 10.0 ** math.floor(math.log10(span / 4))
    return next(power * n for n in (1, 2, 5, 10) if span / (power * n) <= 6)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"
