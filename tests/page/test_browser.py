"""The page in headless Chromium: content, actions, keyboard, a narrow screen, two themes, a lost connection, accessibility."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.browser import chromium
from support.console.frames import CLUSTER
from support.page.scripted_source import ROW, ScriptedSource, seen
from support.page.serving import serving

from backfill_api.status.receipt import ReceiptSummary
from backfill_page.seen import Answer, Ended, JobRow, NextCommand, Pause, PauseAllJobs, Throttle

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
HOSTILE = "<img src=x onerror=document.title='owned'>"
RECEIPT = ReceiptSummary(
    source_version=409,
    target_version=94,
    epoch=700,
    rows=61_000_000,
    mismatches=2,
    mismatch_map=f"{(1 << 215) | 1:064x}",
    condition="pmod(xxhash64(`id`), 256) IN (40, 255)",
)
ENDED = Ended(
    "Failed", False, "KeyNotUnique", "3 rows have the same key", "2026-11-26T20:00:00Z", "2026-11-26T20:18:02Z",
    next_commands=(NextCommand("Try again", "kubectl backfill retry shop/items"),),
)  # fmt: skip
ROWS = (
    ROW,
    JobRow("shop/items", "needs a person", "Failed", "KeyNotUnique: 3 rows"),
    JobRow("shop/wait", "waits", "Pending"),
)
VIEWS = {"jobs": "/", "job": "/job?key=shop/orders", "ended": "/job?key=shop/items"}
SERIOUS = "results => results.violations.filter(each => ['serious', 'critical'].includes(each.impact)).map(each => [each.id, each.nodes.map(node => node.html)])"


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium."""
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def served():
    """A source, its page, and the cookie of a session."""
    source = ScriptedSource()
    with serving(source) as client:
        client.open()
        yield source, client


@pytest.fixture
def source(served):
    """A running job, and one that has failed."""
    running = seen(frame=replace(CLUSTER, receipt=RECEIPT))
    served[0].reset(running, seen("shop/items", replace(CLUSTER, phase="Failed"), ended=ENDED), rows=ROWS)
    return served[0]


@pytest.fixture(scope="module")
def profile(browser, served):
    """A profile of the browser, with a first tab: it keeps the process that draws the site, which takes a second to start."""
    _, client = served
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=client.origin)
    first = context.new_page()
    first.goto("/static/icon.svg")
    yield context, first
    context.close()


@pytest.fixture
def page(profile, served, source):
    """A tab with the session and without stored values; a message of the console fails the test."""
    (context, first), (_, client) = profile, served
    first.evaluate("localStorage.clear()")
    name, _, value = client.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": client.origin}])
    tab = context.new_page()
    tab.messages = []
    tab.on("console", lambda message: tab.messages.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: tab.messages.append(str(error)))
    yield tab
    tab.close()


class TestInABrowser:
    """Scripts and styles obey the policy of the page; a violation would be a message of the console."""

    def test_link_of_the_list_leads_to_the_job_by_keyboard(self, page):
        """Tab and Enter are enough, and the focus stays on its row when the rows change."""
        page.goto("/")
        page.locator("#live[data-kind=fresh]").wait_for()
        page.get_by_role("link", name="shop/orders").focus()
        assert page.evaluate("document.activeElement.textContent") == "shop/orders"
        page.keyboard.press("Enter")
        page.wait_for_url("**/job?key=shop/orders")

        page.get_by_role("heading", name="shop/orders").wait_for()
        assert page.messages == []

    def test_commit_changes_the_page_and_keeps_a_typed_limit(self, page, source):
        """A region is replaced; the form next to it is not."""
        page.goto(VIEWS["job"])
        page.get_by_role("combobox", name="Limit").fill("50k")
        page.locator("#live[data-kind=fresh]").wait_for()
        source.put(seen(frame=replace(CLUSTER, progress=CLUSTER.progress.model_copy(update={"percent": 62}))))
        page.get_by_text("62 %", exact=True).first.wait_for()

        assert page.get_by_role("combobox", name="Limit").input_value() == "50k"
        assert page.messages == []

    def test_actions_show_their_acknowledgement(self, page, source):
        """Keyboard and mouse send the same form."""
        page.goto(VIEWS["job"])
        page.get_by_role("button", name="Pause").press("Enter")
        page.get_by_text("Acknowledged at epoch 14").wait_for()
        page.get_by_role("combobox", name="Limit").fill("100k")
        source.answer = Answer(True, "throttle: limited to 100,000 rows/s. Acknowledged at epoch 15 in 80 ms.")
        page.get_by_role("button", name="Throttle").click()
        page.get_by_text("Acknowledged at epoch 15").wait_for()

        assert source.acted[0] == ("shop/orders", Pause())
        assert ("shop/orders", Throttle(100_000, 1800)) in source.acted
        assert page.messages == []

    def test_all_jobs_are_paused_after_a_question(self, page, source):
        """A dialog names the effect; the button becomes its opposite without a reload."""
        asked = []
        page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
        page.goto("/")
        page.get_by_role("textbox", name="Reason").fill("incident 4711")
        page.get_by_role("button", name="Pause all").click()
        page.get_by_role("button", name="Resume all").wait_for()
        # The stream of events may show the effect before the response of the action arrives.
        page.get_by_text("2 running jobs acknowledged").wait_for()
        page.get_by_text("All jobs are paused: incident 4711").wait_for()

        assert asked == ["Pause snapshot and changes of all jobs?"]
        assert source.acted == [("all", PauseAllJobs("incident 4711"))]
        assert page.messages == []

    def test_menu_chooses_a_namespace(self, page, source):
        """It is part of the link, so that a reload keeps it."""
        source.put(rows=[*ROWS, JobRow("stock/items", "runs", "Running")])
        page.goto("/")
        page.get_by_role("combobox", name="Namespace").select_option("stock")
        page.wait_for_url("**/?namespace=stock")
        page.locator("#live[data-kind=fresh]").wait_for()

        page.get_by_role("link", name="stock/items").wait_for()
        assert page.locator("#rows tr").count() == 1
        assert page.messages == []

    def test_charts_are_drawn_after_two_samples(self, page):
        """The server keeps the samples, so a reload keeps the chart."""
        page.goto(VIEWS["job"])

        page.locator("#chart-lag canvas").wait_for()
        assert page.locator("#chart-rate canvas").count() == 1
        assert page.locator("#chart-lag canvas").count() == 1
        assert page.messages == []

    def test_lost_connection_is_shown_and_comes_back(self, page):
        """A laptop was closed, or the network changed."""
        page.goto(VIEWS["job"])
        page.locator("#live[data-kind=fresh]").wait_for()
        page.context.set_offline(True)
        page.locator("#live[data-kind=offline]").wait_for()
        page.locator("#live").get_by_text("connecting again").wait_for()
        page.context.set_offline(False)

        page.locator("#live[data-kind=fresh]").wait_for()

    def test_ended_session_is_named(self, page):
        """The command was started again, and the cookie is that of the old one."""
        page.goto(VIEWS["job"])
        page.locator("#live[data-kind=fresh]").wait_for()
        page.context.clear_cookies()
        page.context.set_offline(True)
        page.locator("#live[data-kind=offline]").wait_for()
        page.context.set_offline(False)

        page.get_by_text("the session has ended: start the command again").wait_for()

    def test_hostile_names_run_no_script(self, page, source):
        """Names reach the browser in the first answer and in the stream."""
        source.put(rows=[JobRow(HOSTILE, "runs", HOSTILE, HOSTILE)])
        page.goto("/")
        page.locator("#live[data-kind=fresh]").wait_for()

        page.get_by_text(HOSTILE, exact=False).first.wait_for()
        assert page.locator("img").count() == 0
        assert page.title() != "owned"

    @pytest.mark.parametrize("view", ["jobs", "job", "ended"])
    def test_view_fits_a_screen_of_400_pixels(self, page, view):
        """One column, without a scroll bar below; the grid has four rows of 16."""
        page.set_viewport_size({"width": 400, "height": 800})
        page.goto(VIEWS[view])

        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        if view != "jobs":
            rows = page.evaluate(
                "new Set([...document.querySelectorAll('.grid .cell')].map(cell => cell.offsetTop)).size"
            )
            assert rows == 4

    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("view", ["jobs", "job", "ended"])
    def test_axe_finds_nothing_serious(self, page, view, theme):
        """Contrast, names, roles and the order of headings, in both themes."""
        page.emulate_media(color_scheme=theme)
        page.goto(VIEWS[view])
        page.locator("#live[data-kind=fresh], #live[data-kind=late]").wait_for()
        # The policy of the page permits no script of a test; a debugger may evaluate it.
        page.evaluate(AXE)

        assert page.evaluate(f"() => axe.run().then({SERIOUS})") == []

    def test_axe_finds_a_planted_fault(self, page):
        """A check that finds nothing anywhere would prove nothing."""
        page.goto("/")
        page.evaluate("document.getElementById('main').append(new Image())")
        page.evaluate(AXE)

        assert [fault for fault, _ in page.evaluate(f"() => axe.run().then({SERIOUS})")] == ["image-alt"]

    def test_theme_is_kept(self, page):
        """A choice stays after a reload, and its button names the other theme."""
        page.emulate_media(color_scheme="light")
        page.goto("/")
        page.get_by_role("button", name=re.compile("dark")).click()
        page.reload()

        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.get_by_role("button", name=re.compile("light")).wait_for()
