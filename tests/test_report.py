"""The page of a report: right figures, escaped texts, nothing from elsewhere, and fit to be seen in a browser."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import run

from lookahead.cli.report_data import (
    Step,
    acceptance_by_position,
    accepted_lengths,
    by_source,
    read_generations,
    totals,
)
from lookahead.cli.report_page import report_page

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'`\u202e\x00é"
PROMPT = f"line one\nif a < b and {EVIL}:\n    return 1\n" + "wide " * 80 + "\n" + "x" * 300
LONG = "return_" + "y" * 200


def step(text: str, accepted: str = "", **more: Any) -> dict[str, Any]:
    assert text.startswith(accepted)
    figures = {"drafted": 8 if accepted else 0, "accepted": len(accepted), "emitted": len(accepted) + 1}
    times = {"propose_s": 0.001, "forward_s": 0.02}
    return {"kind": "step", "text": text, "accepted_characters": len(accepted), **figures, **times, **more}


def trace(name: str = "a.py", steps: int = 3) -> list[dict[str, Any]]:
    at = PROMPT.index("if a")
    copied = [{"characters": 6, "from": "prompt", "start": at, "end": at + 6}]
    found = [
        step("if a <" + EVIL, "if a <", source="context", match=3, copied=copied),
        step("x", source=""),
        step(LONG, source="prediction", match=0, copied=[]) | {"drafted": 64},
    ]
    found += [step("ab\n", "ab", source="context", match=2, copied=[])] * (steps - 3)
    output = "<" + "".join(each["text"] for each in found)
    stats = {"decode_s": 1.0}
    return [
        {"kind": "generation", "name": name, "texts": {"prompt": PROMPT, "reference 1": ""}},
        {"kind": "prefill", "seconds": 0.5, "text": "<"},
        *found,
        {"kind": "end", "finish": "stop", "output": output, "plain_reason": EVIL, "stats": stats},
    ]


HEADER = {
    "kind": "trace",
    "version": 1,
    "command": "edit",
    "started": "2026-01-01",
    "machine": EVIL,
    "model": {"name": "m" * 120, "dtype": "float32"},
    "settings": {"instruction": EVIL, "files": ["a.py", EVIL], "top_k": 5},
}
TRACE = [HEADER, *trace(), *trace(EVIL, 500)]


class Reader(HTMLParser):
    """Collects tags, the texts of blocks, and every attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.blocks: list[str] = []
        self.ids: list[str] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag == "pre":
            self._open = True
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.blocks[-1] += data


@pytest.fixture(scope="module")
def page() -> str:
    return report_page(TRACE)


@pytest.fixture(scope="module")
def read(page) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_texts_are_escaped_wherever_they_stand(page, read):
    assert "alert(1)" in page
    assert not {"script", "img", "iframe", "link", "object"} & {*read.tags}
    assert not [name for name, _ in read.attributes if name.startswith("on")]


def test_nothing_is_fetched_from_anywhere(page, read):
    assert not re.search(r"https?:|//\w|@import", re.sub(r"\s", "", page.replace("http-equiv", "")))
    assert {value[0] for name, value in read.attributes if name in ("src", "href")} <= {"#"}


def test_the_output_and_the_prompt_stand_in_the_page_whole(read):
    outputs = [entry["output"] for entry in TRACE if entry["kind"] == "end"]
    assert read.blocks == [outputs[0], PROMPT, outputs[1], PROMPT]


def test_a_copied_span_tells_its_source_and_leads_there(page, read):
    titles = [value for name, value in read.attributes if name == "title"]
    told = next(title for title in titles if title.startswith("step 1:"))
    assert told == (
        "step 1: 6 of 8 draft tokens accepted; source context, after 3 matching tokens; copied from the prompt, "
        "line 2: if a <"
    )
    links = [value[1:] for name, value in read.attributes if name == "href"]
    assert links[:1] == ["g1-prompt-2"]
    assert {*links} <= {*read.ids}
    assert len({*read.ids}) == len(read.ids)


def test_steps_are_told_apart_by_more_than_colour(page):
    style = page[page.index("<style>") : page.index("</style>")]
    kinds = re.findall(r"\.(?:even|odd) \{[^}]*text-decoration-style: (\w+)", style)
    assert sorted(kinds) == ["dotted", "solid"]
    assert "url(#hatch)" in style


def test_neighbouring_spans_look_different(read):
    kinds = [value for name, value in read.attributes if name == "class" and value.startswith("step")]
    second = kinds[1:]  # the first generation has one copied span
    assert len(second) > 400
    assert all(one != other for one, other in pairwise(second))


def test_a_page_of_many_steps_stays_small_enough_to_open(page):
    assert len(page) < 300_000
    assert page.count("<rect") < 1000


@pytest.mark.parametrize(
    "entries",
    [
        [HEADER],
        [HEADER, {"kind": "generation"}],
        [HEADER, {"kind": "generation"}, {"kind": "step"}, {"kind": "end"}],
        [{"kind": "trace"}, *trace()],
        [HEADER, {"kind": "step", "text": "lost"}, {"kind": "later"}],
    ],
)
def test_a_trace_with_hardly_anything_still_makes_a_page(entries):
    assert report_page(entries).endswith("</html>\n")


STEPS = [Step(drafted=4, accepted=4, emitted=5, source="a"), Step(drafted=2, source="b"), Step()]


def test_figures():
    (generation,) = read_generations(trace())
    figures = totals([generation])
    assert (figures.tokens, figures.steps, figures.drafted, figures.accepted) == (9, 3, 72, 6)
    assert figures.speed == pytest.approx(9 / 0.063)
    assert (figures.per_step, figures.acceptance) == (3.0, pytest.approx(6 / 72))
    assert accepted_lengths(STEPS) == [("0", 1), ("1", 0), ("2", 0), ("3-4", 1)]
    assert acceptance_by_position(STEPS) == [(1, 0.5, 2), (2, 0.5, 2), (3, 1.0, 1), (4, 1.0, 1)]
    assert [tuple(row) for row in by_source(STEPS)] == [("a", 1, 4, 4, 5), ("b", 1, 2, 0, 1), ("", 1, 0, 0, 1)]
    assert accepted_lengths([]) == [("0", 0), ("1", 0), ("2", 0)]
    assert totals([]).speed == totals([]).per_step == totals([]).acceptance == 0.0


def test_a_tree_is_no_deeper_than_its_longest_branch():
    tree = Step(drafted=6, accepted=2, emitted=3, source="a", depth=2)
    assert acceptance_by_position([tree, Step(drafted=3)]) == [(1, 0.5, 2), (2, 0.5, 2), (3, 0.0, 1)]


def test_the_command_writes_the_page_beside_the_trace_or_where_it_is_told(tmp_path):
    path = tmp_path / "t.trace"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in TRACE))
    done = run("report", path)
    assert (done.status, done.stdout, done.stderr) == (0, b"", f"report: {tmp_path / 't.html'}\n")
    assert (tmp_path / "t.html").read_text(encoding="utf-8") == report_page(TRACE)
    assert run("report", path, "-o", "-").stdout.decode() == report_page(TRACE)
    assert run("report", path).status == 0  # an earlier report gives way
    (tmp_path / "t.html").write_text("<p>my page</p>")
    refused = run("report", path)
    assert (refused.status, refused.stderr.count("\n")) == (2, 1)
    assert "no report: name another file with --output" in refused.stderr
    assert (tmp_path / "t.html").read_text() == "<p>my page</p>"
    bad = run("report", path, "-o", tmp_path / "no" / "r.html")
    assert (bad.status, bad.stderr.count("\n")) == (3, 1)
    assert run("report", tmp_path / "missing").status == 3


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "generation", "texts": [1]},
        {"kind": "step", "drafted": "x"},
        {"kind": "step", "copied": 5},
        {"kind": "prefill", "seconds": None},
        {"kind": "end", "stats": [1]},
        HEADER | {"model": "m"},
    ],
)
def test_a_field_of_an_odd_kind_is_one_sentence(tmp_path, odd):
    path = tmp_path / "t.trace"
    entries = [odd] if odd["kind"] == "trace" else [HEADER, {"kind": "generation"}, odd]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    done = run("report", path)
    assert (done.status, done.stderr) == (3, f"error: {path} is no trace: make one with --trace of edit or generate\n")


def test_a_report_does_not_replace_its_own_trace(tmp_path):
    path, link = tmp_path / "t.trace", tmp_path / "t.html"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in TRACE))
    link.symlink_to(path)
    before = path.read_bytes()
    for argv in (["-o", path], ["-o", link], []):
        refused = run("report", path, *argv)
        assert (refused.status, refused.stderr.count("\n"), path.read_bytes()) == (2, 1, before)
        assert "is the trace itself" in refused.stderr


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MEASURE = """
const frame = document.querySelector("iframe");
const page = frame.contentDocument, view = frame.contentWindow;
function rgb(text) { return text.match(/[\\d.]+/g).map(Number); }
function light([r, g, b]) {
  const parts = [r, g, b].map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
function behind(node) {
  for (; node; node = node.parentElement) {
    const color = rgb(view.getComputedStyle(node).backgroundColor);
    if (color.length < 4 || color[3] > 0) return color;
  }
  return [255, 255, 255];
}
function contrast(node) {
  const style = view.getComputedStyle(node), ink = node.closest("svg") ? style.fill : style.color;
  const [a, b] = [light(rgb(ink)), light(behind(node))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}
for (const each of page.querySelectorAll("details")) each.open = true;
const worded = [...page.querySelectorAll("body *")].filter(
  node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()) && node.tagName !== "title");
const found = {
  width: page.documentElement.scrollWidth,
  contrast: Math.min(...worded.map(contrast)),
  words: worded.length,
  resources: view.performance.getEntriesByType("resource").length,
  paper: view.getComputedStyle(page.body).backgroundColor,
  underlined: view.getComputedStyle(page.querySelector(".step")).textDecorationLine,
  charts: [...page.querySelectorAll("figure svg")].map(node => node.getBoundingClientRect().width),
};
document.body.textContent = "measured " + JSON.stringify(found) + " end";
"""


def measured(page: str, folder: Path, width: int, *, dark: bool) -> dict[str, Any]:
    """What a browser makes of the page in a window of this width."""
    frame = f'<iframe width="{width}" height="900" style="border: 0" srcdoc="{html.escape(page)}"></iframe>'
    wrapper = folder / "frame.html"
    script = f"<script>onload = () => {{ {MEASURE} }};</script>"
    wrapper.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frame}{script}', encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}", scheme]
    done = subprocess.run(
        [BROWSER, *flags, "--dump-dom", wrapper.as_uri()], capture_output=True, text=True, timeout=120
    )
    return json.loads(html.unescape(re.search(r"measured (\{.*\}) end", done.stdout, re.DOTALL)[1]))


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on PATH")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_a_browser_shows_it_readably_in_the_width_there_is(page, tmp_path, width, dark):
    found = measured(page, tmp_path, width, dark=dark)
    assert found["width"] <= width
    assert found["words"] > 100
    assert found["contrast"] >= 4.5
    assert found["resources"] == 0
    assert found["underlined"] == "underline"
    assert min(found["charts"]) > 0
    assert (sum(map(int, re.findall(r"\d+", found["paper"]))) < 200) == dark
