"""Pages in a real browser: headless Chromium, as the system's packages have it. `make test-browser`."""

import json
import re
import shutil
import threading
import time
from contextlib import contextmanager, suppress

import pytest

import pmafl
from pmafl import comparison
from pmafl.page import address_of, open_server, write_page, write_run_page
from tests.page.pages import PLAN, RESULTS, SMALL, small_run

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api")
PATIENCE_MS = 120_000  # a busy machine is no reason to fail


@pytest.fixture(scope="module")
def chromium():
    path = shutil.which("chromium")
    assert path, "chromium is not installed; as root: apt-get install chromium"
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(chromium, address, width=1400, look="light"):
    """A page that is drawn. Errors in its console and requests that leave its file fail the test.

    A live page has an address; it may ask the server that it came from, even where nobody answers.
    """
    live = isinstance(address, str)
    address = address if live else address.resolve().as_uri()
    wrong = []
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=look, accept_downloads=True
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    if not live:
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    inside = (address,) if live else ("file:", "data:", "blob:")
    page.on("request", lambda request: request.url.startswith(inside) or wrong.append(request.url))
    page.on("dialog", lambda dialog: (wrong.append("a dialog opened"), dialog.dismiss()))
    page.goto(address)
    wait_for(page, "document.documentElement.dataset.ready")
    yield page
    context.close()
    assert wrong == []


def wait_for(page, expression):
    """Until it is true. Playwright's own way evaluates text inside the page, which the page forbids."""
    limit_s = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < limit_s:
        with suppress(sync_api.Error):  # the page may be loading again
            if page.evaluate(expression):
                return
        time.sleep(0.05)
    raise AssertionError(f"never true: {expression}")


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    directory = small_run(tmp_path_factory.mktemp("browser") / "run")
    write_run_page(directory)
    return directory


@pytest.fixture(scope="module")
def rows(run_directory):
    return pmafl.open_run(run_directory).rows


def go_to(page, number):
    """Move the slider to a round, as a person with a keyboard does."""
    page.locator("#slider").focus()
    page.keyboard.press("Home")
    for _ in range(number):
        page.keyboard.press("ArrowRight")
    wait_for(page, f"run.frame === {number} && !run.waiting")


def column(page, figure, source, name):
    return page.evaluate(f"Array.from(page.model('{figure}', '{source}').data['{name}'])")


def test_the_slider_moves_the_map_to_what_the_record_says(chromium, run_directory, rows):
    with opened(chromium, run_directory / "page.html") as page:
        for number in (0, 3, 5):
            go_to(page, number)
            shares = [f"{100 * share:.1f}%" for share in rows[number]["bandwidth_share"]]
            states = column(page, "map", "devices", "state")
            for device, share in zip(rows[number]["scheduled"], shares, strict=True):
                assert states[device] == f"scheduled, {share} of the band"
            assert sum(state == "left out" for state in states) == 15 - len(shares)
            assert column(page, "map", "taken", "x") == [
                page.evaluate(f"run.devices.x_m[{device}]") for device in rows[number]["scheduled"]
            ]


def test_colours_are_the_queues_and_energies_of_the_record(chromium, run_directory, rows):
    with opened(chromium, run_directory / "page.html") as page:
        go_to(page, 4)
        page.select_option("#colour", "queue")
        queues = column(page, "map", "devices", "value")
        assert sum(queues) / 15 == pytest.approx(rows[4]["mean_queue_j"], rel=1e-5)
        assert max(queues) == pytest.approx(rows[4]["max_queue_j"], rel=1e-5)
        page.select_option("#colour", "energy")
        shares = column(page, "map", "devices", "value")
        budget_j = pmafl.open_run(run_directory).settings.fleet.budget_j
        assert max(shares) / 100 * budget_j == pytest.approx(rows[4]["worst_energy_j"], rel=1e-5)


def test_the_round_in_words_and_bars_is_that_of_the_record(chromium, run_directory, rows):
    with opened(chromium, run_directory / "page.html") as page:
        go_to(page, 2)
        said = page.inner_text("#happened")
        assert f"Round 3: {len(rows[2]['scheduled'])} of 15 devices were scheduled" in said
        assert f"{rows[2]['scheduled_samples']:,} samples" in said
        assert column(page, "division", "bars", "device") == rows[2]["scheduled"]
        tops = column(page, "division", "bars", "top")
        assert tops[-1] == pytest.approx(100 * sum(rows[2]["bandwidth_share"]), rel=1e-5)
        done = column(page, "division", "bars", "done")
        expected = [
            sum(pair) for pair in zip(rows[2]["compute_time_s"], rows[2]["upload_time_s"], strict=True)
        ]
        assert done == pytest.approx(expected, rel=1e-5)
        left = [int(count) for count in re.findall(r"(\d+) devices?:", page.inner_text("#reasons"))]
        assert sum(left) == 15 - len(rows[2]["scheduled"])


def test_a_click_on_the_map_opens_the_story_of_a_device(chromium, run_directory, rows):
    with opened(chromium, run_directory / "page.html") as page:
        assert page.is_hidden("#story-body")
        place = page.evaluate(
            """() => {
              const view = page.shown.get("map"), box = view.canvas_view.el.getBoundingClientRect();
              return [box.x + view.frame.x_scale.compute(run.devices.x_m[7]),
                      box.y + view.frame.y_scale.compute(run.devices.y_m[7])];
            }"""
        )
        page.mouse.click(*place)
        page.wait_for_selector("[data-figure=story-queue] canvas", state="attached")
        assert page.input_value("#device") == "7"
        mine = [row for row in rows if 7 in row["scheduled"]]
        assert f"{len(mine)} of 6 rounds" in page.inner_text("#story-facts")
        assert column(page, "story-share", "story", "x") == [row["round"] + 1 for row in mine]
        at = [row["scheduled"].index(7) for row in mine]
        shares = [100 * row["bandwidth_share"][i] for row, i in zip(mine, at, strict=True)]
        assert column(page, "story-share", "story", "share") == pytest.approx(shares, rel=1e-5)
        spent = sum(
            row["compute_energy_j"][i] + row["upload_energy_j"][i] for row, i in zip(mine, at, strict=True)
        )
        assert column(page, "story-energy", "story", "spent")[-1] == pytest.approx(spent, rel=1e-5)


def test_a_number_opens_a_story_without_a_mouse(chromium, run_directory):
    with opened(chromium, run_directory / "page.html") as page:
        page.locator("#device").focus()
        page.keyboard.type("3")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-figure=story-gain] canvas", state="attached")
        assert page.is_visible("#story-facts")
        page.locator("#device").fill("99")
        page.keyboard.press("Enter")
        wait_for(page, "document.getElementById('story-hint').textContent.includes('no such device')")


def test_curves_are_the_records_against_rounds_seconds_and_joules(chromium, run_directory, rows):
    with opened(chromium, run_directory / "page.html") as page:
        assert column(page, "queues", "rounds", "max_q") == [row["max_queue_j"] for row in rows]
        assert column(page, "gap", "rounds", "x") == [1, 2, 3, 4, 5, 6]
        page.select_option("#against", "joules")
        joules = column(page, "energy", "rounds", "x")
        assert joules[-1] == pytest.approx(15 * 6 * rows[-1]["mean_energy_j"], rel=1e-9)
        page.select_option("#against", "seconds")
        assert column(page, "energy", "rounds", "x")[-1] == pytest.approx(6 * 2.0, rel=1e-6)
        go_to(page, 1)
        line = page.evaluate("page.model('energy', 'cursor').location")
        assert line == pytest.approx(column(page, "energy", "rounds", "x")[1])


def test_receiving_comes_before_computing(chromium, tmp_path):
    receiving = {"cell.downlink_bps": 1e8, "fleet.receive_power_w": 0.1, "fleet.circuit_power_w": 0.05}
    directory = small_run(tmp_path / "run", **receiving)
    row = pmafl.open_run(directory).rows[-1]
    received_s = 533_248 * 32 / 1e8
    with opened(chromium, write_run_page(directory), 390, "dark") as page:
        found = {name: column(page, "division", "bars", name) for name in ("received", "done", "energy")}
        assert found["received"] == pytest.approx([received_s] * len(row["scheduled"]))
        times_s = zip(row["compute_time_s"], row["upload_time_s"], strict=True)
        assert found["done"] == pytest.approx([received_s + sum(pair) for pair in times_s], rel=1e-5)
        parts = (row[f"{name}_energy_j"] for name in ("compute", "upload", "awake"))
        assert found["energy"] == pytest.approx([sum(part) for part in zip(*parts, strict=True)], rel=1e-5)
        assert "receiving" in page.evaluate("page.plot('division').above[0].items.map((i) => i.label.value)")


def test_play_goes_through_all_rounds_and_stops(chromium, run_directory):
    with opened(chromium, run_directory / "page.html") as page:
        page.click("#play")
        assert page.inner_text("#play") == "stop"
        wait_for(page, "run.frame === 5 && document.getElementById('play').textContent === 'play'")


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("look", ["light", "dark"])
def test_pages_fit_phones_and_screens_in_both_looks(chromium, run_directory, width, look):
    with opened(chromium, run_directory / "page.html", width, look) as page:
        page.evaluate("run.choose(2)")
        page.wait_for_selector("[data-figure=story-queue] canvas", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        paper = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')")
        assert page.evaluate("page.plot('map').background_fill_color") == paper.strip()
        assert (paper.strip() == "#ffffff") == (look == "light")
        page.click("#look")
        assert page.evaluate("document.documentElement.dataset.look") != look
        assert page.evaluate("page.plot('map').background_fill_color") != paper.strip()


@pytest.mark.parametrize("kind", ["PNG", "SVG"])
def test_every_figure_can_be_saved(chromium, run_directory, kind):
    with opened(chromium, run_directory / "page.html") as page:
        save_all(page, kind)
        page.evaluate("run.choose(2)")
        wait_for(page, "run.head.stories.every((name) => page.shown.has(name))")
        for name in page.evaluate("run.head.stories"):  # browsers stop pages that save many files at once
            blob = f"page.shown.get('{name}').export('{kind.lower()}').to_blob()"
            assert page.evaluate(f"{blob}.then((blob) => blob.size)") > 1000


def save_all(page, kind):
    names = page.evaluate("[...page.shown.keys()]")
    assert names
    for name in names:
        with page.expect_download() as download:
            page.click(f"[aria-label='save the figure {name} as {kind}']")
        content = download.value.path().read_bytes()
        assert content[:4] == b"\x89PNG" if kind == "PNG" else b"<svg" in content[:200]


def test_hostile_names_appear_as_text(chromium, tmp_path):
    name = "<img src=x onerror=alert(1)><script>alert(1)<∕script>😀"
    policies = tmp_path / "policies.py"
    policies.write_text(
        "import numpy as np\nfrom pmafl.scheduling import allocate_fitting\n"
        "def policy(problem, rng):\n    return allocate_fitting(problem, np.arange(2), 'mine')\n"
        f"globals()[{'<script>alert(1)</script>' + 'x' * 10_000!r}] = policy\n"
    )
    settings = {"policy.name": f"policies:{'<script>alert(1)</script>' + 'x' * 10_000}"}
    settings |= {"run.plugin_path": [str(tmp_path)]}
    directory = small_run(tmp_path / name, **settings)
    with opened(chromium, write_run_page(directory), 390) as page:
        assert page.inner_text("#name") == name
        assert "policies:<script>alert(1)</script>xxx" in page.text_content("#line")
        assert "<script>alert(1)</script>" in page.text_content("#settings")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_run_before_its_first_round_shows_an_empty_page(chromium, tmp_path):
    pmafl.create_run(tmp_path / "run", pmafl.load_settings("mnist", SMALL))
    with opened(chromium, write_run_page(tmp_path / "run")) as page:
        assert page.inner_text("#happened") == "No round is done yet."


@contextmanager
def served(directory, port=None):
    server = open_server(directory, port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def test_a_live_page_grows_and_survives_a_kill(chromium, run_directory, tmp_path):
    lines = (run_directory / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    pmafl.create_run(tmp_path / "run", pmafl.load_settings("mnist", SMALL))
    records = tmp_path / "run" / "rounds.jsonl"
    have = "typeof run !== 'undefined' && document.documentElement.dataset.ready && run.part.frames.length"
    with served(tmp_path / "run") as server, opened(chromium, address_of(server)) as page:
        port = server.server_port
        for count in (1, 2, 4):
            records.write_bytes(b"".join(lines[:count]))
            wait_for(page, f"({have}) === {count}")
            wait_for(page, f"run.frame === {count - 1}")
        wait_for(page, "document.getElementById('live').textContent === 'live: 4 of 6 rounds'")
        server.shutdown()
        server.server_close()
        wait_for(page, "document.getElementById('live').textContent.includes('no answer')")
        records.write_bytes(b"".join(lines[:3]))  # killed, and gone on from its last checkpoint
        with served(tmp_path / "run", port):
            wait_for(page, f"({have}) === 3")
            records.write_bytes(b"".join(lines))
            wait_for(page, f"({have}) === 6")
            wait_for(page, "document.getElementById('live').textContent.includes('finished')")
            queues = column(page, "queues", "rounds", "max_q")
            assert queues == [row["max_queue_j"] for row in pmafl.open_run(run_directory).rows]


def test_comparisons_sort_hide_and_lead_to_their_runs(chromium, tmp_path):
    for job in comparison.grid("mnist", SMALL, {"policy.name": ["dual", "ocean"]}, range(2), tmp_path):
        small_run(job.directory, **dict(job.variation), **{"run.seed": job.seed})
    with opened(chromium, write_page(tmp_path)) as page:
        assert len(column(page, "mean_queue_j", "curves", "xs")) == 2
        page.locator("#variations input").first.uncheck()
        assert column(page, "mean_queue_j", "curves", "number") == [2]
        page.select_option("#against", "joules")
        page.click("#table th button >> nth=0")
        first = page.inner_text("#table tbody tr:first-child")
        page.click("#table th button >> nth=0")
        assert page.inner_text("#table tbody tr:first-child") != first
        save_all(page, "SVG")
        page.locator("#variations a").first.click()
        wait_for(page, "document.documentElement.dataset.ready && typeof run !== 'undefined'")
        assert "seed" in page.inner_text("#line")


@pytest.mark.parametrize("width", [390, 1400])
def test_comparisons_fit_phones_and_screens(chromium, tmp_path, width):
    for job in comparison.grid("mnist", SMALL, {"policy.name": ["dual", "ocean"]}, range(1), tmp_path):
        small_run(job.directory, **dict(job.variation), **{"run.seed": job.seed})
    with opened(chromium, write_page(tmp_path), width, "dark") as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "look"), [(390, "light"), (1400, "dark")])
def test_a_plan_has_sliders_that_choose(chromium, tmp_path, width, look):
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    with opened(chromium, write_page(tmp_path / "plan.json"), width, look) as page:
        assert column(page, "front", "chosen", "y") == [1000]
        page.locator("[data-name=deadline_s]").focus()
        page.keyboard.press("ArrowRight")
        assert column(page, "front", "chosen", "y") == [2000]
        assert "2,000" in page.inner_text("#chosen")
        page.click("#take")
        assert column(page, "front", "chosen", "y") == [1000]
        assert column(page, "rings", "annuli", "share") == [70]
        save_all(page, "PNG")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_hostile_plan_appears_as_text(chromium, tmp_path):
    hostile = "<img src=x onerror=alert(1)>" + "x" * 10_000
    plan = PLAN | {"choices": [one | {"choice": {hostile: 1.0}} for one in PLAN["choices"]]}
    plan["goals"] = [{"goal": hostile, "met": False, "margin": 0.0, "reached": "$$\\alert(1)$$"}]
    path = tmp_path / "<img src=x onerror=alert(1)>😀.json"
    path.write_text(json.dumps(plan))
    with opened(chromium, write_page(path), 390) as page:
        assert page.inner_text("#name") == f"Plan: {path.name}"
        assert hostile in page.text_content("#sliders")
        assert hostile in page.text_content("#goals")
        page.hover("[data-figure=front] .drawing")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [390, 1400])
def test_claims_are_filtered_and_figures_chosen(chromium, tmp_path, width):
    for path in RESULTS.glob("fig[45]-cifar10*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "CLAIMS.json").write_bytes((RESULTS / "CLAIMS.json").read_bytes())
    with opened(chromium, write_page(tmp_path), width) as page:
        every = page.locator("#claims tbody tr").count()
        page.select_option("#which", "reproduced")
        assert 0 < page.locator("#claims tbody tr").count() < every
        before = column(page, "accuracy", "curves", "ys")
        page.select_option("#figure", "1")
        assert column(page, "accuracy", "curves", "ys") != before
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cells = "[...document.querySelectorAll('#claims td')]"
        assert page.evaluate(f"{cells}.every((cell) => cell.getBoundingClientRect().right <= {width})")
        page.locator("#claims button").first.focus()
        page.keyboard.press("Enter")
        assert column(page, "accuracy", "curves", "ys") == before  # the first claim's, by the keyboard
