"""The charts of the benchmark."""

from xml.etree import ElementTree

from bench.chart import HEIGHT, WIDTH, line_chart, make_axis

SVG = "{http://www.w3.org/2000/svg}"
LINES = {"few & old": [(10.0, 0.5), (100.0, 2.0), (1000.0, 7.0)], "many": [(10.0, 4), (1000.0, 4)]}
VALUES = [y for line in LINES.values() for _, y in line]


def draw(*, log: bool) -> ElementTree.Element:
    x, y = make_axis("runs", [10, 1000], log=True), make_axis("ms", VALUES, log=log)
    return ElementTree.fromstring(line_chart("Lists", x, y, LINES))


def test_a_chart_names_its_axes_and_lines() -> None:
    texts = [element.text for element in draw(log=False).iter(f"{SVG}text")]
    assert {"Lists", "runs", "ms", "few & old", "many", "1,000"} <= set(texts)


def test_all_points_are_within_the_chart_and_a_higher_value_is_higher() -> None:
    for log in (False, True):
        few, many = (line.attrib["points"] for line in draw(log=log).iter(f"{SVG}polyline"))
        points = [tuple(map(float, point.split(","))) for point in (few + " " + many).split()]
        assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in points)
        heights = [y for _, y in points]
        assert heights[0] > heights[1] > heights[3] > heights[2]
        assert heights[3] == heights[4]
        assert points[1][0] - points[0][0] == points[2][0] - points[1][0]


def test_a_linear_axis_begins_at_zero_and_has_round_steps() -> None:
    axis = make_axis("ms", [3.0, 70.0])
    assert (axis.ticks(), axis.high) == ([0, 20, 40, 60, 80], 80)
