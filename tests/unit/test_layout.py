"""Pictures of plans: nothing overlaps, nothing lies outside, and the same plan looks the same."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from orchestrate.catalogue import recipe_files
from orchestrate.compile import compile_file, require_program
from orchestrate.plan.visible import width_of
from orchestrate.show.draw.drawing import Drawing, Edge, Group, Vertex, draw_program, vertices_in
from orchestrate.show.draw.layout import Picture, in_reading_order, lay_out
from orchestrate.show.draw.svg import render_svg
from orchestrate.workspace import Workspace, open_workspace

# What lies in shared/ are parts for others to include, no recipes.
CATALOGUE = [
    name for name, _, _ in recipe_files(open_workspace("/")) if not name.startswith("shared/")
]
Rectangle = tuple[float, float, float, float, str]


def drawing_of(recipe: str, workspace: Workspace) -> Drawing:
    path = next(path for name, path, _ in recipe_files(workspace) if name == recipe)
    return draw_program(require_program(compile_file(path, workspace)))


def rectangles(picture: Picture) -> list[Rectangle]:
    """Boxes and labels with the room that their texts take at most."""
    found = [(b.x, b.y, b.x + b.width, b.y + b.height, b.text) for b in picture.boxes]
    for wire in picture.wires:
        if wire.label:
            width = 6.4 * width_of(wire.label)
            left = wire.label_x - (width if wire.anchor == "end" else 0)
            found.append((left, wire.label_y - 9, left + width, wire.label_y + 2, wire.label))
    return found


def check(picture: Picture) -> None:
    found = rectangles(picture)
    for left, top, right, bottom, text in found:
        assert left >= 0, text
        assert top >= 0, text
        assert right <= picture.width, text
        assert bottom <= picture.height, text
    for one, other in combinations(found, 2):
        apart = one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]
        assert apart, f"{one} and {other} overlap"
    for wire in picture.wires:
        # A wire crosses no box on its way: its inner points lie beside all of them.
        for x, y in wire.points[1:-1]:
            for box in picture.boxes:
                inside = box.x < x < box.x + box.width and box.y < y < box.y + box.height
                assert not inside, (wire, box)


def test_the_catalogue_is_not_empty() -> None:
    assert len(CATALOGUE) > 10


@pytest.mark.parametrize("recipe", CATALOGUE)
def test_nothing_overlaps_in_the_catalogue(recipe: str, tmp_path: Path) -> None:
    drawing = drawing_of(recipe, open_workspace(tmp_path))
    picture = lay_out(drawing)
    check(picture)
    steps = [v for v in vertices_in(drawing.top) if v.shape not in ("finish", "abort")]
    drawn = [b.vertex.id for b in picture.boxes if b.vertex.shape not in ("finish", "abort")]
    assert sorted(drawn) == sorted(v.id for v in steps), "each step once"
    assert len(picture.wires) >= len({(e.tail, e.head) for e in drawing.edges}), "no route is lost"
    svg = render_svg(drawing, recipe)
    assert ET.fromstring(svg).get("viewBox")
    assert svg == render_svg(drawing_of(recipe, open_workspace(tmp_path)), recipe)


def test_a_plan_in_which_everything_leads_everywhere() -> None:
    names = [f"s{number}" for number in range(12)]
    start: Vertex | Group = Vertex("start", "start", "start")
    drawing = Drawing(Group("top", "", [start, *(Vertex(n, "名" * 60, "step") for n in names)]))
    drawing.edges.append(Edge("start", "s3", "", "solid"))
    for tail in names:
        drawing.edges += [Edge(tail, head, f"{tail} to {head} " * 9, "solid") for head in names]
    check(lay_out(drawing))
    check(lay_out(Drawing(Group("top", ""))))


def test_frames_lie_inside_each_other() -> None:
    inner = Group("i", "inner", [Vertex("b", "b", "run")])
    outer = Group("o", "outer", [Vertex("a", "a", "loop"), inner])
    picture = lay_out(Drawing(Group("top", "", [outer])))
    big, small = picture.frames
    assert (big.text, small.text) == ("outer", "inner")
    assert big.x < small.x
    assert big.y < small.y
    assert big.x + big.width > small.x + small.width
    assert big.y + big.height > small.y + small.height
    assert small.y + small.height < picture.height


def test_a_machine_is_drawn_in_the_order_in_which_it_is_reached(tmp_path: Path) -> None:
    drawing = drawing_of("implement-and-review", open_workspace(tmp_path))
    texts = [v.text for v in vertices_in(in_reading_order(drawing).top)]
    assert texts[:3] == ["start", "implement", "implement:check-1"]
    steps = [text for text in texts if ":" not in text]
    assert steps[:3] == ["start", "implement", "code-review"]


def test_texts_cannot_break_a_picture() -> None:
    text = '</text><script>&"\x1b[31m\u202e'
    drawing = Drawing(Group("top", text, [Vertex("a", text, "step"), Vertex("b", text, "finish")]))
    drawing.edges.append(Edge("a", "b", text, "thick", 1))
    svg = render_svg(drawing, "x")
    assert {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()} <= {
        "svg", "title", "style", "defs", "marker", "path", "rect", "g", "text",
    }  # fmt: skip
    assert "\x1b" not in svg
    assert "\u202e" not in svg
