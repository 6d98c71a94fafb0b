"""A notebook that is executed, stored, and looked at in Chromium; the driver is scripted, so no Spark starts."""

import threading
from pathlib import Path

import pytest
from support.browser import chromium
from support.tables.jobs import write_yaml

from backfill import Ack
from backfill.control import NotRunningError

nbclient = pytest.importorskip("nbclient", reason="`make setup` installs nbclient")
nbformat = pytest.importorskip("nbformat")
ipywidgets = pytest.importorskip("ipywidgets")

HERE = Path(__file__).parent
WAIT_S = 30
BEGIN = """
import sys
sys.path[:0] = {paths!r}
from test_run import ScriptedDriver
from backfill import Backfill, display
job = Backfill.load({spec!r})
job
"""
RUN = """
view = display.view_for(job.job_id, job.spec, None, display.unseen{commands})
outcome = job.shown_by(view, driver=ScriptedDriver("complete")).wait({wait_s})
outcome
"""
HOSTILE = "<img src=x onerror=document.title='owned'>"


class Answering:
    """Commands of a job: each one is acknowledged, or no driver runs."""

    def __init__(self, *, running=True):
        self.running, self.seen, self.answered = running, [], threading.Event()

    def _answer(self, *command):
        self.seen.append(command)
        self.answered.set()
        if not self.running:
            raise NotRunningError("no driver of job 'j' runs.")
        return Ack(attempt=1, epoch=14, revision=1, outcome="Applied")

    def pause(self):
        """Satisfies `Commands`."""
        return self._answer("pause")

    def resume(self):
        """Satisfies `Commands`."""
        return self._answer("resume")

    def stop(self):
        """Satisfies `Commands`."""
        return self._answer("stop")

    def throttle(self, rows_per_second):
        """Satisfies `Commands`."""
        return self._answer("throttle", rows_per_second)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A notebook after all of its cells ran, as it is stored: one run without buttons, and one with them."""
    folder = tmp_path_factory.mktemp("notebook")
    spec = str(write_yaml(folder / "job.yaml", "/s", "/t"))
    sources = (
        BEGIN.format(paths=[str(HERE), str(HERE.parent)], spec=spec), RUN.format(commands="", wait_s=WAIT_S), RUN.format(commands=", job", wait_s=WAIT_S)
    )  # fmt: skip
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BACKFILL_STATE_DIR", str(folder / "state"))
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return nbformat.reads(nbformat.writes(notebook), as_version=4)


def outputs(cell, kind="text/html"):
    """Return the stored outputs of a cell that have this form."""
    return [output.data[kind] for output in cell.outputs if kind in output.get("data", {})]


class TestAStoredNotebook:
    """The notebook is read again after the kernel has gone."""

    def test_the_last_frame_of_the_block_is_stored(self, executed):
        """The block was updated in place: one output, not one for each second."""
        block, outcome = outputs(executed.cells[1])

        assert "reading the snapshot" in block
        assert "5 of 10 rows" in block
        assert "starting Spark" not in block
        assert "✔\ufe0e complete" in outcome

    def test_a_job_shows_itself(self, executed):
        """The last line of a cell is enough."""
        assert "default/job" in outputs(executed.cells[0])[0]

    def test_buttons_are_only_below_a_job_in_the_background(self, executed):
        """While a cell runs, the kernel would answer a button only after the job has ended."""
        kind = "application/vnd.jupyter.widget-view+json"

        assert [len(outputs(cell, kind)) for cell in executed.cells[1:]] == [0, 1]


class TestButtons:
    """A button sends its command, and shows the answer next to it."""

    @pytest.mark.parametrize("name", ["pause", "resume", "stop"])
    def test_a_button_sends_its_command(self, name):
        """The kernel does not wait for the acknowledgement."""
        from backfill.buttons import Buttons

        commands = Answering()
        buttons = Buttons(commands)
        answered = answer_event(buttons.message)
        getattr(buttons, name).click()

        assert answered.wait(WAIT_S)
        assert commands.seen == [(name,)]
        assert f"{name}: acknowledged at epoch 14" in buttons.message.value

    @pytest.mark.parametrize(("label", "rate"), [("no limit", None), ("100 k rows/s", 100_000), ("0 rows/s", 0)])
    def test_each_choice_of_a_limit_is_a_command(self, label, rate):
        """A job may begin with a limit in its spec, which the list can remove."""
        from backfill.buttons import Buttons

        commands = Answering()
        buttons = Buttons(commands)
        assert buttons.limit.label == "choose"
        buttons.limit.label = label

        assert commands.answered.wait(WAIT_S)
        assert commands.seen == [("throttle", rate)]

    def test_no_choice_sends_nothing(self):
        """The limit in force stays."""
        from backfill.buttons import Buttons

        commands = Answering()
        buttons = Buttons(commands)
        answered = answer_event(buttons.message)
        buttons.limit.label = "100 k rows/s"
        assert answered.wait(WAIT_S)
        buttons.limit.label = "choose"

        assert commands.seen == [("throttle", 100_000)]
        assert "acknowledged" in buttons.message.value

    def test_a_command_to_no_driver_shows_why(self):
        """A cell that fails minutes later in another thread would show nothing."""
        from backfill.buttons import Buttons

        buttons = Buttons(Answering(running=False))
        answered = answer_event(buttons.message)
        buttons.pause.click()

        assert answered.wait(WAIT_S)
        assert buttons.message.value == "✖ pause: no driver of job 'j' runs."

    def test_the_buttons_of_a_job_that_has_ended_are_disabled(self):
        """No driver would answer."""
        from backfill.buttons import Buttons

        buttons = Buttons(Answering())
        buttons.close()

        assert all(widget.disabled for widget in buttons.row.children[:4])


def answer_event(message):
    """Return an event that is set when a message contains an answer."""
    answered = threading.Event()
    message.observe(lambda change: answered.set() if change["new"][:1] in "✔✖" else None, "value")
    return answered


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium."""
    with chromium() as launched:
        yield launched


class TestInABrowser:
    """The block is readable on a light and on a dark page, and runs no script of a name."""

    @pytest.mark.parametrize(("background", "text"), [("#ffffff", "#111111"), ("#111111", "#dddddd")])
    def test_all_text_has_contrast(self, browser, executed, background, text):
        """4.5 to 1 is the limit of WCAG for text of this size."""
        page = browser.new_page()
        page.set_content(f"<body style='background:{background};color:{text}'>{outputs(executed.cells[1])[0]}</body>")
        ratios = page.evaluate(CONTRAST, background)

        assert len(ratios) >= 10
        assert min(ratios.values()) >= 4.5, ratios

    def test_the_bars_are_as_long_as_their_numbers(self, browser, executed):
        """The driver reports 50 % of the time, and 5 of 10 rows."""
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        page.set_content(outputs(executed.cells[1])[0])
        widths = page.evaluate("""() => [...document.querySelectorAll('.backfill > div')].map(row => ['done', 'partial', 'open'].map(
            role => [...row.querySelectorAll('.backfill-' + role)].reduce((sum, bar) => sum + bar.getBoundingClientRect().width, 0)
        )).filter(bars => bars[0])""")

        assert len(widths) == 2
        assert [abs(done / (done + partial + rest) - 0.5) < 0.02 for done, partial, rest in widths] == [True, True]

    def test_a_hostile_name_runs_no_script(self, browser):
        """A job id comes from a file of another user."""
        from backfill import Progress
        from backfill.display import html

        page = browser.new_page()
        page.set_content(html(HOSTILE, Progress(attempt=1, reason=HOSTILE, warnings=(HOSTILE,))))

        assert page.locator("img").count() == 0
        assert page.title() == ""
        assert page.get_by_text(HOSTILE, exact=False).first.is_visible()


CONTRAST = """background => {
    const hidden = new Set(['backfill-done', 'backfill-partial', 'backfill-open', 'backfill-rule', 'backfill-spark']);
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgb = (colour, under) => {
        for (const fill of [under, colour]) { canvas.fillStyle = fill; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = ([r, g, b]) => [r, g, b].map(part => part / 255).map(
        part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    ).reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const ratios = {};
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement, style = getComputedStyle(parent);
        if (!walker.currentNode.data.trim() || hidden.has(parent.className)) continue;
        canvas.globalAlpha = 1;
        const below = rgb(background, background);
        const colour = rgb(style.color, background).map((part, at) => part * style.opacity + below[at] * (1 - style.opacity));
        const [low, high] = [light(colour), light(below)].sort((first, second) => first - second);
        ratios[walker.currentNode.data.trim()] = (high + 0.05) / (low + 0.05);
    }
    return ratios;
}"""
