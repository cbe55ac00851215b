"""The page in a real browser, with a made-up cluster of 1,000 workers and 20,000 tasks a second on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from aiohttp import ClientSession, WSMsgType, web

from scaler import Client
from scaler.monitor.ui.views import PAGES
from tests.support.browser import PHONE, WIDE, Watched, chromium
from tests.support.processes import REPOSITORY, Command, command, free_address, scheduler, wait_until
from tests.support.terminal import ENTER, terminal

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.more, pytest.mark.alone, pytest.mark.foreign, pytest.mark.timeout(600)]

SIZES = {"wide": WIDE, "phone": PHONE}
THINGS = {"task": "7461736b01000000", "worker": "rome01:3", "function": "66756e6303000000"}
GRAPH, JOB = "6772617068303031", "6a6f623030303031"
VIEWS = [*PAGES, *(f"{kind}/{identity}" for kind, identity in THINGS.items()), f"graphs/{GRAPH}", f"jobs/{JOB}"]
NASTY = "<script>alert(1)</script>"


@contextlib.contextmanager
def traffic(address: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    program = [sys.executable, "-m", "tests.support.monitor_traffic", address, *arguments]
    process = subprocess.Popen(program, cwd=REPOSITORY)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def ui(address: str, home: Path, port: str = "0", *arguments: str) -> Iterator[tuple[Command, str]]:
    with command("ui", address, "--port", port, *arguments, env={"XDG_STATE_HOME": str(home)}) as running:
        yield running, running.wait_for("?token=").strip()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Command, str]]:
    address = free_address()
    home = tmp_path_factory.mktemp("home")
    with traffic(address, "--workers", "1000", "--rate", "20000"), ui(address, home) as running:
        yield running


@pytest.fixture
def watch(browser: Browser) -> Iterator[Callable[..., Watched]]:
    contexts = []

    def watched(size: str = "wide", scheme: str = "light") -> Watched:
        contexts.append(browser.new_context(viewport=SIZES[size], color_scheme=scheme))
        return Watched(contexts[-1])

    yield watched
    for context in contexts:
        context.close()


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        ("wide", "light"),
        ("phone", "dark"),
        pytest.param("wide", "dark", marks=pytest.mark.soak),
        pytest.param("phone", "light", marks=pytest.mark.soak),
    ],
)
def test_each_page_shows_a_large_cluster(
    loaded: tuple[Command, str], watch: Callable[..., Watched], size: str, scheme: str
) -> None:
    _, url = loaded
    seen = watch(size, scheme)
    seen.page.goto(url)
    seen.wait_for("tasks/s", "#strip")
    seen.wait_for("1,000", "main")
    assert "token" not in seen.page.url
    for view in VIEWS:
        seen.go(f"#/{view}")
        seen.page.wait_for_function("() => document.querySelector('main').innerText.length > 30")
        seen.page.wait_for_timeout(700)  # for two frames
        width, room = seen.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= room, f"{view} scrolls sideways"
        if (size, scheme) in (("wide", "light"), ("phone", "dark")):
            assert seen.barriers() == [], view
        seen.picture(f"{size}-{scheme}-{view.partition('/')[0]}{'-one' if '/' in view else ''}")
    assert seen.complaints == []
    assert {request.split("/")[2] for request in seen.requests} == {url.split("/")[2]}, "nothing is from elsewhere"


def test_jobs_are_shown_with_what_is_left_and_the_failures_of_each(
    loaded: tuple[Command, str], watch: Callable[..., Watched]
) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.go("#/jobs")
    for text in ("prices-23", "1000M", "alice", "prices.py", "48.0 MiB", "4,096", "rows missing", "stopped"):
        seen.wait_for(text, "main")
    seen.page.click("text=q3")
    seen.wait_for("5 of 9 ended rows failed", "main")
    seen.wait_for("row 0: OSError: no such file", "main")
    seen.wait_for("and 4 more: scaler_jobs ADDRESS show q3", "main")
    seen.page.click("text=All jobs")
    seen.wait_for("prices-23", "main")
    assert seen.complaints == []


def test_names_are_text_and_nothing_else(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    for view, text in {
        "live": NASTY,
        "tasks": NASTY,
        f"function/{THINGS['function']}": NASTY,
        "failures": "<b>ACME</b>",
        "jobs": "<img src=x onerror=alert(1)>",
    }.items():
        seen.go(f"#/{view}")
        seen.wait_for(text, "main")
    seen.go("#/live")
    seen.wait_for("<img src=x onerror=alert(1)>", "main")
    assert (
        seen.page.evaluate("document.querySelectorAll('main script, main img, main b:not([aria-hidden])').length") == 0
    )
    assert seen.complaints == []


def test_the_keyboard_is_enough(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("rome01:3", "main")
    press = seen.page.keyboard.press
    for key, page in (("2", "tasks"), ("9", "failures"), ("1", "live")):
        press(key)
        seen.page.wait_for_url(f"**/#/{page}")
    seen.wait_for("rome01:3", "main")
    press("/")
    seen.page.wait_for_function("() => document.activeElement.type === 'search'")
    seen.page.keyboard.type("rome01:3")
    seen.wait_for("1\u20131 of 1", "main")
    press("Escape")
    press("j")
    seen.page.wait_for_function("() => document.activeElement.tagName === 'TR'")
    while "rome01:3" not in seen.page.evaluate("document.activeElement.innerText"):
        press("j")
    press("Enter")
    seen.page.wait_for_url("**/#/workers/*")
    seen.wait_for("Worker rome01:3", "main")
    press("Escape")
    seen.page.wait_for_url("**/#/live?filter=rome01*")
    assert seen.page.locator("main input[type=search]").input_value() == "rome01:3", "Back restores the filter"
    press("?")
    assert seen.page.evaluate("document.getElementById('keys').open")
    press("Escape")
    seen.page.evaluate("document.activeElement.blur()")
    press(" ")
    seen.wait_for("paused", "#strip")
    press(" ")
    seen.wait_for("live", "#strip")
    assert seen.complaints == []


def test_focus_and_filter_survive_updates(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("rome01:3", "main")
    search = seen.page.locator("main input[type=search]")
    search.fill("rome05")
    seen.wait_for("1\u201316 of 16", "main")
    seen.page.locator("main tbody tr", has_text="rome05:2").first.focus()
    before = seen.text("#strip .news")
    seen.page.wait_for_function("before => document.querySelector('#strip .news').innerText !== before", arg=before)
    seen.page.wait_for_timeout(2500)
    assert "rome05:2" in seen.page.evaluate("document.activeElement.innerText")
    assert search.input_value() == "rome05"
    seen.page.locator("main th button", has_text="CPU").click()  # all workers take another share in each frame
    row = seen.page.locator("main tbody tr", has_text="rome05:7").first
    row.focus()
    before = row.get_attribute("aria-rowindex")
    seen.page.wait_for_function(
        "before => document.activeElement.innerText.includes('rome05:7')"
        " && document.activeElement.getAttribute('aria-rowindex') !== before",
        arg=before,
    )


def test_a_pause_leaves_no_gap(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    paused, other = watch(), watch()
    for seen in (paused, other):
        seen.page.goto(url)
        seen.wait_for("1,000", "main")
        seen.chart_table()
    paused.page.keyboard.press(" ")
    paused.wait_for("paused", "#strip")
    (last, *_), before = other.chart_table(), paused.chart_table()
    wait_until(lambda: [*other.chart_table()].index(last) >= 6, "six more seconds")
    assert paused.chart_table() == before, "it stands still"
    paused.go("#/failures")
    paused.wait_for("ValueError", "main")
    assert "paused" in paused.text("#strip"), "another page is shown, and stands still too"
    paused.go("#/live")
    paused.wait_for("1,000", "main")
    paused.page.keyboard.press(" ")
    newest = next(iter(other.chart_table()))
    wait_until(lambda: newest in paused.chart_table(), "it has gone on")
    theirs, mine = other.chart_table(), paused.chart_table()
    meanwhile = [time for time in theirs if last < time < newest]
    assert len(meanwhile) >= 5
    assert [mine.get(time) for time in meanwhile] == [theirs[time] for time in meanwhile]


def test_the_pointer_shows_a_tooltip(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("1,000", "main")
    for view in ("live", "stream", f"worker/{THINGS['worker']}"):
        seen.go(f"#/{view}")
        seen.wait_for(":", "#strip .news")
        wait_until(lambda: points_at_a_time(seen), f"the chart of {view} tells the time")


def test_ctrl_and_the_wheel_change_the_window(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("1,000", "main")
    seen.go("#/stream")
    pressed = seen.page.locator("main button[aria-pressed=true]")
    pressed.get_by_text("5 min").wait_for()
    seen.page.locator("main .legend").hover()
    seen.page.keyboard.down("Control")
    for turn, window in ((60, "10 min"), (60, "30 min"), (60, "30 min"), (-60, "10 min")):
        seen.page.mouse.wheel(0, turn)
        pressed.get_by_text(window).wait_for()
    seen.page.keyboard.up("Control")


def points_at_a_time(seen: Watched) -> bool:
    chart = seen.page.locator("main .chart").first
    box = chart.bounding_box()
    assert box is not None
    chart.hover(position={"x": box["width"] - 100, "y": 10})
    chart.hover(position={"x": box["width"] - 40, "y": 10})
    return re.match(r"\d\d:\d\d:\d\d ", seen.text("main .readout")) is not None


def test_a_range_that_is_dragged_in_the_history_filters_the_tasks(
    loaded: tuple[Command, str], watch: Callable[..., Watched]
) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("1,000", "main")
    box = seen.page.locator("#band .u-over").bounding_box()
    assert box is not None
    across, y = box["x"] + box["width"], box["y"] + 8
    seen.page.mouse.move(across - 60, y)
    seen.page.mouse.down()
    seen.page.mouse.move(across - 2, y, steps=5)
    seen.page.mouse.up()
    seen.page.wait_for_url("**/#/tasks*")
    chosen = seen.page.locator("main button", has_text=re.compile(r"\d\d:\d\d:\d\d \u2013 "))
    chosen.click()
    chosen.wait_for(state="hidden")
    assert seen.complaints == []


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_the_strip_keeps_its_height_and_its_whole_sentence_can_be_read(
    loaded: tuple[Command, str], watch: Callable[..., Watched], width: int
) -> None:
    _, url = loaded
    seen = watch()
    seen.page.set_viewport_size({"width": width, "height": 800})
    seen.page.goto(url)
    seen.wait_for("1,000", "main")
    height = "document.getElementById('strip').getBoundingClientRect().height"
    before = seen.page.evaluate(height)
    sentence = seen.page.locator("#strip .sentence")
    seen.page.keyboard.press(" ")
    seen.wait_for("paused", "#strip")
    sentence.evaluate("(element, text) => { element.textContent = text }", "a long reason for it. " * 20)
    seen.page.wait_for_function("() => document.getElementById('strip').classList.contains('long')")
    sentence.click()
    whole = seen.page.locator("#strip .whole")
    whole.wait_for(state="visible")
    assert seen.page.evaluate(height) == before
    seen.page.locator("main").click(position={"x": 5, "y": 400})
    whole.wait_for(state="hidden")


def test_addresses_that_lead_nowhere_say_so(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("1,000", "main")
    for place in ("nothing", "graphs/zzz", "task/%E0%A4%A"):
        seen.go(f"#/{place}")
        seen.wait_for("No such page", "main")
        seen.page.locator("main a", has_text="Live").click()
        seen.wait_for("1,000", "main")
    assert "live" in seen.text("#strip"), "the connection has stayed"
    assert seen.complaints == []


@pytest.mark.parametrize("file", ["app.js", "charts.js", "pages/live.js", "vendor/uPlot.iife.min.js"])
def test_a_file_of_the_page_that_is_missing_is_told(
    loaded: tuple[Command, str], watch: Callable[..., Watched], file: str
) -> None:
    _, url = loaded
    seen = watch()
    seen.page.route(f"**/static/{file}", lambda route: route.abort())
    seen.page.goto(url)
    seen.wait_for("cannot start", "main [role=alert]")


def test_the_token_can_be_typed(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    place, _, token = url.partition("?token=")
    seen = watch()
    seen.page.goto(place)
    assert seen.barriers() == []
    seen.page.get_by_label("Token").fill("something else")
    seen.page.keyboard.press("Enter")
    seen.wait_for("not the token")
    seen.page.get_by_label("Token").fill(token)
    seen.page.keyboard.press("Enter")
    seen.wait_for("1,000", "main")
    assert token not in seen.page.url
    assert not any(token in request for request in seen.requests), "in no address that a proxy writes down"
    seen.page.reload()
    seen.wait_for("1,000", "main")


def test_with_reduced_motion_the_page_changes_in_steps(
    loaded: tuple[Command, str], watch: Callable[..., Watched]
) -> None:
    _, url = loaded
    seen = watch()
    seen.page.emulate_media(reduced_motion="reduce")
    frames: list[float] = []
    seen.page.on("websocket", lambda socket: socket.on("framereceived", lambda _: frames.append(time.monotonic())))
    seen.page.goto(url)
    wait_until(lambda: seen.page.evaluate("1") and len(frames) >= 3, "three frames")
    assert frames[2] - frames[1] > 4


def test_a_failure_is_two_steps_away(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("tasks/s", "#strip")
    seen.page.locator("#nav a", has_text="Failures").click()
    seen.page.locator("main a", has_text="ValueError").click()
    seen.wait_for("price", "main dl")
    seen.wait_for('File "/home/q/prices.py", line 41', "main")


def test_the_address_has_the_order_and_the_filter_and_back_undoes_them(
    loaded: tuple[Command, str], watch: Callable[..., Watched]
) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("1,000", "main")
    seen.go("#/functions?sort=-total&filter=calib")
    seen.wait_for("calibrate", "main")
    assert "price" not in seen.text("main tbody")
    sorted_by = seen.page.locator("main th[aria-sort=descending]")
    assert "Time" in sorted_by.inner_text()
    seen.page.locator("main th button", has_text="Failed").click()
    seen.page.wait_for_url("**/#/functions?*sort=-failed*")
    sorted_by.get_by_text("Failed").wait_for()
    seen.page.go_back()
    sorted_by.get_by_text("Time").wait_for()
    seen.page.reload()
    sorted_by.get_by_text("Time").wait_for()
    assert seen.page.locator("main input[type=search]").input_value() == "calib"
    assert seen.complaints == []


@pytest.mark.parametrize("page", ["live", "tasks", "functions", "failures", "workers", "processors"])
def test_each_table_can_be_saved_and_copied(
    loaded: tuple[Command, str], watch: Callable[..., Watched], page: str
) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("1,000", "main")
    seen.go(f"#/{page}")
    seen.page.wait_for_selector("main tbody tr")
    links = seen.page.locator("main .exports").first
    for kind in ("json", "csv"):
        with seen.page.expect_download() as download:
            links.get_by_text(kind.upper()).click()
        text = Path(download.value.path()).read_text()
        assert (json.loads(text)["rows"] if kind == "json" else text.splitlines()[1:]) != []
    links.get_by_text("Copy").click()
    links.get_by_text("Copied").wait_for()
    assert seen.complaints == []


@pytest.mark.soak
def test_a_hundred_loads_leave_nothing_behind(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    running, url = loaded
    server = psutil.Process(running.pid)
    seen = watch()

    def load(times: int) -> int:
        for _ in range(times):
            seen.page.goto(url)
            seen.wait_for("1,000", "main")
        return int(server.memory_info().rss)

    rss = load(10)
    connections = len(server.net_connections())
    _, heap, _ = seen.held()
    rss_after = load(90)
    documents, heap_after, _ = seen.held()
    assert documents == 1
    assert heap_after - heap < 4 << 20
    assert rss_after - rss < 24 << 20, "history itself grows by a little"
    wait_until(
        lambda: len(server.net_connections()) <= connections + 8, "the server has dropped the pages that are gone"
    )


@pytest.mark.soak
def test_a_page_does_not_grow_while_it_is_looked_at(loaded: tuple[Command, str], watch: Callable[..., Watched]) -> None:
    _, url = loaded
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("1,000", "main")

    def look_at_all() -> tuple[int, int, int]:
        for view in [*VIEWS, "live"]:
            seen.go(f"#/{view}")
            seen.page.wait_for_timeout(300)
        return seen.held()

    look_at_all()
    _, heap, listeners = look_at_all()
    for _ in range(3):
        look_at_all()
    _, heap_after, listeners_after = seen.held()
    assert listeners_after < listeners + 40, "pages that were left are not kept"
    assert heap_after - heap < 2 << 20


def test_the_page_reconnects_after_a_restart_of_the_server_and_of_the_scheduler(
    browser: Browser, watch: Callable[..., Watched], tmp_path: Path
) -> None:
    address, seen = free_address(), watch()
    port = free_address().rpartition(":")[2]
    with traffic(address):
        with ui(address, tmp_path, port) as (running, url):
            seen.page.goto(url)
            seen.wait_for("16 of 16", "#strip")
            running.signal(signal.SIGTERM)
            assert running.end() == 0
        seen.wait_for("No connection", "#strip")
        with ui(address, tmp_path, port):
            seen.wait_for("16 of 16", "#strip")
    with ui(address, tmp_path, port):
        seen.wait_for("Waiting for the scheduler", "#strip")
        seen.picture("wide-light-waiting")
        with traffic(address, "--workers", "16"):
            seen.wait_for("16 of 16", "#strip")
        seen.wait_for("No news", "#strip")
        seen.picture("wide-light-no-news")
        with traffic(address, "--workers", "9"):
            seen.wait_for("The scheduler was restarted", "#strip")
            seen.wait_for("9 of 16 workers are back", "#strip")
            seen.picture("wide-light-restarted")
    assert [text for text in seen.complaints if "WebSocket" not in text] == [], "only lost connections are told of"


def price(strike: int) -> int:
    if strike % 100 == 0:
        raise ValueError("bad strike <i>0</i>")
    return strike


def surface(size: int) -> bytes:
    return os.urandom(size)


def test_a_real_cluster_its_counters_a_failure_and_a_scheduler_that_is_killed(
    watch: Callable[..., Watched], tmp_path: Path
) -> None:
    address, seen = free_address(), watch()
    with contextlib.ExitStack() as running:
        _, first = running.enter_context(scheduler(address))
        running.enter_context(command("cluster", address, "-n", "2"))
        _, url = running.enter_context(ui(address, tmp_path))
        top = running.enter_context(terminal(sys.executable, "-m", "scaler.cli.top", address))
        seen.page.goto(url)
        seen.wait_for("of 2", "#strip")
        with Client(address) as client:
            ended = client.map(price, [(strike,) for strike in range(10_000)], return_exceptions=True)
            assert sum(isinstance(each, ValueError) for each in ended) == 100
            seen.wait_for("100 failed", "#strip")
            top.wait_for("success     9,900")
            top.wait_for("failed        100")
            top.press("4" + ENTER)
            top.wait_for('raise ValueError("bad strike <i>0</i>")')
            top.press("q")
            seen.page.locator("#nav a", has_text="Failures").click()
            seen.page.locator("main tr", has_text="ValueError").get_by_text("100", exact=True).wait_for()
            seen.page.locator("main a", has_text="ValueError").click()
            seen.wait_for('raise ValueError("bad strike <i>0</i>")', "main")
            seen.picture("wide-light-real-failure")
            kept = client.submit(surface, 1_000_000)
            seen.page.locator("#nav a", has_text="Memory").click()
            seen.wait_for("result of surface", "main")
            row = seen.page.locator("tr", has_text="result of surface").inner_text()
            assert row.split("\t")[1:3] == ["977 KiB", "\u25cbagent"]
            assert row.split("\t")[-1] == "admin"
            del kept
            seen.page.locator("#nav a", has_text="Failures").click()
        os.kill(first.pid, signal.SIGKILL)
        seen.wait_for("No news", "#strip")
        running.enter_context(scheduler(address))
        seen.wait_for("The scheduler was restarted", "#strip")
        seen.wait_for("0 of 2", "#strip")
        seen.wait_for("of an earlier scheduler", "main")
    assert [text for text in seen.complaints if "WebSocket" not in text] == []


@pytest.mark.parametrize(("workers", "rate", "says"), [("0", "0", "No workers"), ("16", "0", "Idle")])
def test_empty_states_say_what_is_missing(
    watch: Callable[..., Watched], tmp_path: Path, workers: str, rate: str, says: str
) -> None:
    address = f"ipc://{tmp_path}/monitor"  # nobody else can take it meanwhile
    seen = watch("phone")
    with traffic(address, "--workers", workers, "--rate", rate), ui(address, tmp_path) as (_, url):
        seen.page.goto(url)
        seen.wait_for(says, "#strip")
        if workers == "0":
            seen.wait_for("scaler_cluster tcp://127.0.0.1:2345", "main")
        seen.picture(f"phone-light-{says.replace(' ', '-').lower()}")
        for view in ("tasks", "graphs", "failures", "processors"):
            seen.go(f"#/{view}")
            seen.page.wait_for_selector("main .empty, main tbody tr")
    assert seen.complaints == []


def test_a_server_on_another_port_that_is_visited_gets_nothing_that_opens_the_page(
    loaded: tuple[Command, str], watch: Callable[..., Watched]
) -> None:
    _, url = loaded
    place, _, token = url.partition("?token=")
    seen = watch()
    seen.page.goto(url)
    seen.wait_for("1,000", "main")
    seen.page.goto(place)  # without the token, which the browser has kept
    seen.wait_for("1,000", "main")
    with listener() as (port, heard):
        seen.page.goto(f"http://127.0.0.1:{port}/")
        wait_until(lambda: heard, "the other server was asked")
        assert seen.page.evaluate("JSON.stringify({...localStorage})") == "{}"
    cookie = dict(line.split(": ", 1) for line in heard[0].splitlines() if ": " in line)["Cookie"]
    assert token not in heard[0]
    assert status(f"{place}metrics", cookie) == 403
    assert status(f"{place}metrics", cookie, f"Bearer {cookie.partition('=')[2]}") == 403
    assert status(place, cookie) == 200, "its files alone"
    with ThreadPoolExecutor() as beside:  # the browser has the loop of this thread
        assert beside.submit(asyncio.run, first_answer(f"{place}socket", cookie)).result() == 1008


def status(url: str, cookie: str, authorization: str = "") -> int:
    request = urllib.request.Request(url, headers={"Cookie": cookie, "Authorization": authorization})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def first_answer(url: str, cookie: str) -> Any:
    async with ClientSession() as session, session.ws_connect(url, headers={"Cookie": cookie}) as socket:
        await socket.send_json({"wish": 1, "page": "live"})
        return (await socket.receive(timeout=60)).data


@contextlib.contextmanager
def listener() -> Iterator[tuple[int, list[str]]]:
    """The server of another user on this host; yields its port and the requests that it gets."""
    heard: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(str(self.headers))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], heard
        finally:
            server.shutdown()
            thread.join()


def test_the_page_works_behind_a_proxy_with_a_prefix(
    loaded: tuple[Command, str], watch: Callable[..., Watched]
) -> None:
    _, url = loaded
    seen = watch()
    with proxy(url.partition("?")[0]) as front:
        seen.page.goto(f"{front}/proxy/50001/?{url.partition('?')[2]}")
        seen.wait_for("1,000", "main")
        assert seen.page.url.startswith(f"{front}/proxy/50001/#/")
        assert all("/proxy/50001/" in request for request in seen.requests)
    assert [text for text in seen.complaints if "WebSocket" not in text] == []


@contextlib.contextmanager
def proxy(back: str) -> Iterator[str]:
    """As the one of a notebook server: it takes a prefix off, and asks under the name of the server behind it."""
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = []

    async def forward(request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        headers = {name: value for name, value in request.headers.items() if name == "Cookie"}
        async with ClientSession() as session:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                front = web.WebSocketResponse()
                await front.prepare(request)
                async with session.ws_connect(back + path, headers=headers) as socket:

                    async def upwards() -> None:
                        async for message in front:
                            await socket.send_str(message.data)

                    task = asyncio.create_task(upwards())
                    async for message in socket:
                        if message.type is WSMsgType.TEXT:
                            await front.send_str(message.data)
                    task.cancel()
                return front
            async with session.get(back + path, params=request.query, headers=headers) as answer:
                kept = {
                    name: answer.headers[name]
                    for name in ("Content-Type", "Set-Cookie", "Content-Security-Policy")
                    if name in answer.headers
                }
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    async def serve() -> None:
        app, end = web.Application(), asyncio.Event()
        app.router.add_get("/proxy/50001/{path:.*}", forward)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        started.append((asyncio.get_running_loop(), end, f"http://127.0.0.1:{port}"))
        await end.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    wait_until(lambda: started, "the proxy listens")
    loop, end, url = started[0]
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(10)
