"""The HTML page in a headless Chromium, as a person uses it: pointer, keys, search, address bar, screen reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from layoutlab.catalogue import named
from layoutlab.draw import draw
from layoutlab.layout import Layout
from tests.browser import complaints, opened

PANELS = ("tile", "memory", "reader")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sP with its swizzle forgotten: three panels of 128 x 128 elements."""
    path = tmp_path_factory.mktemp("page") / "sp.html"
    draw(named("sP")(write_swizzle="none"), path)
    return path


class Page:
    """What a person can do with the page."""

    def __init__(self, browser: Any, path: Path, fragment: str = "") -> None:
        browser.set_window_size(1500, 1400)
        self.browser = opened(browser, path, fragment)
        assert self.browser.execute_script("return document.documentElement.dataset.ready") == "1"

    def view(self, panel: str) -> Any:
        return self.browser.find_element(By.ID, f"view-{panel}")

    def lit(self, panel: str) -> str:
        return str(self.browser.find_element(By.ID, f"count-{panel}").text)

    def said(self) -> str:
        return str(self.browser.find_element(By.ID, "live").text)

    def cursor(self, panel: str) -> str:
        """What a screen reader says of the cell under the cursor."""
        view = self.view(panel)
        return str(
            self.browser.find_element(By.ID, view.get_attribute("aria-activedescendant")).get_attribute("textContent")
        )

    def fragment(self) -> str:
        return str(self.browser.execute_script("return decodeURIComponent(location.hash)"))

    def point(self, panel: str, row: int, col: int, click: bool = False) -> None:
        """The pointer over a cell that is in view at the start."""
        x, y = self.browser.execute_script(
            """const view = document.getElementById(arguments[0]), canvas = view.querySelector("canvas");
            view.scrollIntoView({block: "center"});
            return window.layoutlab.centre(arguments[1], arguments[2], arguments[3]);""",
            f"view-{panel}", panel, row, col,
        )  # fmt: skip
        actions = ActionChains(self.browser, duration=0)
        actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        if click:
            actions.click()
        actions.perform()

    def keys(self, *keys: str) -> None:
        ActionChains(self.browser, duration=0).send_keys(*keys).perform()

    def find(self, text: str) -> None:
        box = self.browser.find_element(By.ID, "search")
        box.clear()
        box.send_keys(text, Keys.ENTER)

    def facts(self) -> dict[str, str]:
        names = [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, "#facts dt")]
        values = [e.text for e in self.browser.find_elements(By.CSS_SELECTOR, "#facts dd")]
        return dict(zip(names, values, strict=True))

    def choose(self, control: str, value: str) -> None:
        Select(self.browser.find_element(By.ID, control)).select_by_value(value)


def test_hovering_lights_a_thread_up_in_every_panel(browser: Any, page: Path) -> None:
    p = Page(browser, page)
    assert [p.lit(panel) for panel in PANELS] == ["16384 cells"] * 3
    p.point("tile", 5, 3)
    assert [p.lit(panel) for panel in PANELS] == ["128 of 16384 lit"] * 3
    assert p.facts()["thread"] == "5" and p.facts()["value"] == "3"
    assert p.facts()["written at byte"] == str(5 * 128 + 6)
    assert p.facts()["read at byte"] == str(5 * 128 + (6 ^ 5 << 4))
    p.point("memory", 2, 0)
    assert p.facts()["thread"] == "2"
    assert p.fragment() == ""
    assert complaints(browser) == []


@pytest.mark.parametrize(("by", "count"), [("value", 128), ("bank", 512), ("byte", 1), ("element", 1), ("warp", 4096)])
def test_a_click_stays_and_is_in_the_address(browser: Any, page: Path, by: str, count: int) -> None:
    p = Page(browser, page)
    p.choose("by", by)
    p.point("memory", 1, 4, click=True)
    assert [p.lit(panel) for panel in PANELS] == [f"{count} of 16384 lit"] * 3
    assert f"light={by}:" in p.fragment()
    again = Page(browser, page, p.fragment())
    assert [again.lit(panel) for panel in PANELS] == [f"{count} of 16384 lit"] * 3
    assert browser.find_element(By.ID, "by").get_attribute("value") == by
    again.keys(Keys.ESCAPE)
    assert again.lit("tile") == "16384 cells" and "light" not in again.fragment()


def test_a_heading_lights_its_bank_and_its_row(browser: Any, page: Path) -> None:
    p = Page(browser, page)
    x, y = browser.execute_script("return window.layoutlab.heading('memory', 'col', 9)")
    actions = ActionChains(browser, duration=0)
    actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    actions.click().perform()
    assert p.fragment() == "#light=bank:4" and p.lit("reader") == "512 of 16384 lit"
    x, y = browser.execute_script("return window.layoutlab.heading('memory', 'row', 3)")
    actions = ActionChains(browser, duration=0)
    actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    actions.click().perform()
    assert p.fragment() == "#light=memory.row:3" and p.lit("tile") == "64 of 16384 lit"


def test_filters(browser: Any, page: Path) -> None:
    p = Page(browser, page)
    p.choose("warp", "2")
    assert [p.lit(panel) for panel in PANELS] == ["4096 cells"] * 3
    p.choose("instruction", "7")
    assert p.lit("memory") == "32 cells"
    assert p.fragment() == "#warp=2&instruction=7"
    browser.find_element(By.ID, "clear").click()
    assert p.lit("memory") == "16384 cells" and p.fragment() == ""


@pytest.mark.parametrize(
    ("text", "thread", "value"),
    [
        ("5,17", 5, 17), ("(5, 17)", 5, 17), ("m=5 k=17", 5, 17), ("T5 V17", 5, 17), ("thread 5 value 17", 5, 17),
        ("byte 674", 5, 17), ("byte 675", 5, 17),
    ],
)  # fmt: skip
def test_search(browser: Any, page: Path, text: str, thread: int, value: int) -> None:
    p = Page(browser, page)
    p.find(text)
    assert [p.lit(panel) for panel in PANELS] == ["1 of 16384 lit"] * 3
    assert (p.facts()["thread"], p.facts()["value"]) == (str(thread), str(value))
    assert "1 of 16384 lit" in p.said()
    for panel in PANELS:  # it has been scrolled to
        assert browser.execute_script("return window.layoutlab.visible(arguments[0])", panel)


def test_search_says_what_it_does_not_find(browser: Any, page: Path) -> None:
    p = Page(browser, page)
    p.find("5,1700")
    assert p.said() == "no element has m 5, k 1700"
    p.find("lane 3")
    assert p.said().startswith("there is no lane here: thread, value")
    p.find("hello")
    assert "names no coordinate" in p.said()
    assert p.lit("tile") == "16384 cells"


def test_keys_alone(browser: Any, page: Path) -> None:
    p = Page(browser, page)
    for _ in range(40):
        p.keys(Keys.TAB)
        if browser.switch_to.active_element.get_attribute("id") == "view-tile":
            break
    assert browser.switch_to.active_element.get_attribute("id") == "view-tile"
    p.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert p.cursor("tile").startswith("m 2, k 1, thread 2, value 1") and p.cursor("tile").endswith("wrong")
    p.keys(Keys.ENTER)
    assert p.lit("reader") == "128 of 16384 lit" and p.fragment() == "#light=thread:2"
    p.keys("v", Keys.ENTER)
    assert p.fragment() == "#light=value:1&by=value"
    p.keys(Keys.END)
    assert p.cursor("tile").startswith("m 2, k 127")
    p.keys(Keys.ARROW_RIGHT)
    assert p.cursor("tile").startswith("m 2, k 127")
    p.keys("+")
    assert "zoom=1.25" in p.fragment()
    p.keys(Keys.ESCAPE)
    assert "light" not in p.fragment()
    p.keys("/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"


def test_screen_readers_are_told_what_there_is(browser: Any, page: Path) -> None:
    p = Page(browser, page)
    for panel in PANELS:
        view = p.view(panel)
        assert view.get_attribute("role") == "grid" and view.get_attribute("aria-label")
        assert int(view.get_attribute("aria-rowcount")) * int(view.get_attribute("aria-colcount")) == 16384
        cell = browser.find_element(By.ID, view.get_attribute("aria-activedescendant"))
        assert cell.get_attribute("role") == "gridcell" and cell.get_attribute("textContent")
    for control in browser.find_elements(By.CSS_SELECTOR, ".tools input, .tools select"):
        assert control.find_element(By.XPATH, "..").tag_name == "label"
    for button in browser.find_elements(By.TAG_NAME, "button"):
        assert button.text or button.get_attribute("aria-label")
    assert browser.find_element(By.ID, "live").get_attribute("aria-live") == "polite"
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"


PIXEL = """
const view = document.getElementById("view-" + arguments[0]), canvas = view.querySelector("canvas");
const [x, y] = window.layoutlab.corner(arguments[0], arguments[1], arguments[2]);
return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
"""


def test_what_is_lit_is_seen_without_colour(browser: Any, page: Path) -> None:
    p = Page(browser, page, "#palette=mono")
    before = browser.execute_script(PIXEL, "tile", 2, 3)
    p.find("thread 2")
    lit, other = (browser.execute_script(PIXEL, "tile", row, 3) for row in (2, 3))
    assert max(lit) < 40 < min(before)  # a black frame
    assert min(other) > 200


def test_a_wrong_element_is_marked_in_its_corner(browser: Any, page: Path) -> None:
    Page(browser, page)
    corner = "const [x, y] = window.layoutlab.corner('tile', arguments[0], 4, true);" + (
        "const c = document.querySelector('#view-tile canvas');"
        "return [...c.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3);"
    )
    right, wrong = (browser.execute_script(corner, row) for row in (0, 1))
    assert wrong[0] > 120 and max(wrong[1:]) < 60
    assert right != wrong


ARROWS = """
const [box, view] = ["page", "view-memory"].map((id) => document.getElementById(id).getBoundingClientRect());
const ways = [...document.querySelectorAll("#arrows > path")].map((path) => {
  const n = path.getTotalLength(), points = [];
  for (let i = 0; i <= n; i += 2) points.push(path.getPointAtLength(Math.min(i, n)));
  points.push(path.getPointAtLength(n));
  return [path.hasAttribute("stroke-dasharray"), parseFloat(path.getAttribute("stroke-width")) / 2,
          points.map((p) => [p.x + box.x, p.y + box.y])];
});
const frames = [...document.querySelectorAll("#arrows > rect")].map((rect) => {
  const { x, y, width, height } = rect.getBoundingClientRect();
  return [x, y, width, height];
});
return [ways, frames, [view.x, view.y, view.right, view.bottom]];
"""


def test_the_arrow_goes_from_byte_128_to_byte_144(browser: Any, page: Path) -> None:
    """Its ends are the edge and the corner of two framed cells, and between them it keeps to the lines."""
    p = Page(browser, page)
    browser.execute_script("arguments[0].scrollIntoView()", p.view("memory"))
    ways, frames, view = browser.execute_script(ARROWS)
    (text_wide, text_tall), (wide, tall) = browser.execute_script("return window.layoutlab.fits('memory')")
    ((half, points),) = [(half, points) for thin, half, points in ways if not thin]
    cells = [browser.execute_script("return window.layoutlab.centre('memory', ...arguments)", 1, col) for col in (0, 8)]
    (x1, y1), (x2, y2) = cells
    assert points[0] == pytest.approx([x1, y1 + tall / 2], abs=0.6)
    assert points[-1] == pytest.approx([x2 - wide / 2, y2 + tall / 2], abs=0.6)
    for x, y in cells:
        assert any([a + c / 2, b + d / 2] == pytest.approx([x, y], abs=1) for a, b, c, d in frames)
    checked = 0
    for _, half, points in ways:
        for x, y in points:
            if not (view[0] < x < view[2] and view[1] < y < view[3]):
                continue
            across, down = (x - x1) % wide, (y - y1) % tall  # from the middle of the cell before it
            apart = min(across, wide - across), min(down, tall - down)
            assert apart[0] - half >= text_wide / 2 - 1 or apart[1] - half >= text_tall / 2 - 1, (x, y)
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("zoom", ["0.6", "1", "1.75"])
def test_labels_fit_their_cells(browser: Any, page: Path, zoom: str) -> None:
    Page(browser, page, f"#zoom={zoom}")
    for panel in PANELS:
        (wide, tall), (cell_wide, cell_tall) = browser.execute_script(
            "return window.layoutlab.fits(arguments[0])", panel
        )
        assert wide <= cell_wide and tall <= cell_tall


def test_the_page_is_small_and_needs_nothing(page: Path) -> None:
    text = page.read_text()
    assert len(text) < 1_500_000
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("side", [128, 256])
def test_large_pages_are_painted(browser: Any, tmp_path: Path, side: int) -> None:
    """The page comes up, small, and paints a hover; both times are printed."""
    path = tmp_path / "large.html"
    draw(Layout((side, side), (1, side)), path, tile=(side, side))
    assert path.stat().st_size < 1_500_000
    loaded = Page(browser, path).browser.execute_script("return window.layoutlab.took")
    took = browser.execute_script(
        """const view = document.getElementById("view-tile"), took = [];
        for (let i = 1; i < 30; i++) {
          const [x, y] = window.layoutlab.centre("tile", i % 20, i % 25), start = performance.now();
          view.dispatchEvent(new MouseEvent("mousemove", {clientX: x, clientY: y, bubbles: true}));
          view.querySelector("canvas").getContext("2d").getImageData(0, 0, 1, 1);
          took.push(performance.now() - start);
        }
        return took.sort((a, b) => a - b)[5];"""
    )
    print(f"{side} x {side}: ready in {loaded:.0f} ms, a hover painted in {took:.1f} ms")
    assert took > 0
    assert complaints(browser) == []
