"""Each key of the watch changes the screen, or requests one change of the job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_console.commands.key_screen import (
    KEYS,
    KeyScreen,
    Pause,
    Quit,
    Resume,
    Throttle,
    Verify,
    answered,
    keys_in,
    press,
)


def after(text, screen=None):
    """Return the screen after these keys, and the changes that they request."""
    screen, requested = screen or KeyScreen(), []
    for key in keys_in(text):
        screen, change = press(screen, key)
        requested += [] if change is None else [change]
    return screen, requested


class TestCommands:
    """A command is sent once, and the next one waits for its answer."""

    @pytest.mark.parametrize(
        ("key", "change", "name"), [("p", Pause(), "pause"), ("r", Resume(), "resume"), ("v", Verify(), "verify")]
    )
    def test_key_requests_its_change(self, key, change, name):
        """The screen shows that it is not confirmed yet."""
        screen, requested = after(key)

        assert requested == [change]
        assert (screen.waits_for, screen.note) == (name, f"{name}: not acknowledged yet")

    def test_second_command_waits_for_the_answer_to_the_first(self):
        """A held key would send a hundred."""
        screen, requested = after("pppr")

        assert requested == [Pause()]
        assert screen.note == "wait: pause is not acknowledged yet"
        screen, requested = after("r", answered(screen, "shop/orders: paused."))
        assert requested == [Resume()]

    def test_answer_stays_until_the_next_command(self):
        """A person may read it in another view."""
        screen, _ = after("le", answered(KeyScreen(waits_for="pause"), "shop/orders: paused."))

        assert (screen.note, screen.view) == ("shop/orders: paused.", "events")

    def test_quit_changes_nothing(self):
        """Only the watch ends."""
        assert after("q")[1] == after("Q")[1] == [Quit()]


class TestALimit:
    """`t` asks for a number; Enter sends it, and Escape does not."""

    @pytest.mark.parametrize(
        ("typed", "change"),
        [
            ("50k\r", Throttle(50_000)),
            ("none\n", Throttle(None)),
            (" 7\x7f\x7f900\r", Throttle(900)),
            ("0\r", Throttle(0)),
        ],
    )
    def test_number_is_sent(self, typed, change):
        """With the units of `backfill throttle`."""
        assert after("t" + typed)[1] == [change]

    @pytest.mark.parametrize("typed", ["\r", "fast\r", "-5\r", "1e99\r"])
    def test_invalid_number_changes_nothing(self, typed):
        """The message has the reason."""
        screen, requested = after("t" + typed)

        assert requested == []
        assert screen.note.startswith("the limit is unchanged: ")
        assert screen.waits_for == ""

    def test_keys_are_text_while_a_limit_is_typed(self):
        """`none` has no `q`, and another word might."""
        screen, requested = after("tpq")

        assert requested == []
        assert screen.note.startswith("throttle to rows a second (50000, 200k, none): pq_")
        assert after("\x1b", screen) == (KeyScreen(message="the limit is unchanged"), [])


class TestViews:
    """A view is shown until its key or Escape is pressed again."""

    @pytest.mark.parametrize(("key", "view"), [("l", "logs"), ("e", "events"), ("g", "grid")])
    def test_key_shows_its_view_and_returns(self, key, view):
        """The job goes on underneath."""
        screen, _ = after(key)

        assert screen.view == view
        assert after(key, screen)[0].view == after("\x1b", screen)[0].view == "job"

    def test_special_keys_are_no_letters(self):
        """An arrow sends Escape and letters, of which one might be a command."""
        assert after("\x1b[A\x1b[1;5D\x1bOP\x1b[15~") == (KeyScreen(), [])

    @given(st.text(max_size=30))
    def test_any_input_is_accepted(self, text):
        """A cat may lie on the keyboard; only named commands are sent."""
        screen, requested = after(text)

        assert len([change for change in requested if not isinstance(change, Quit)]) <= 1
        assert len(screen.typed or "") <= 20

    def test_each_key_has_an_action(self):
        """The line below the block lists them all."""
        for key, _ in KEYS:
            screen, requested = after(key)
            assert requested or screen != KeyScreen()
