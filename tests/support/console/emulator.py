"""A terminal in memory: it computes the place of each character after the escapes that the command line sends."""

import re

TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\x00-\x1f])|([^\x00-\x1f])", re.DOTALL)


class Emulator:
    """Lines of a terminal that scrolls, and wraps a line when a character comes after its last column, as xterm does."""

    def __init__(self, columns=80, lines=24):
        self.columns, self.lines = columns, lines
        self.rows = [[" "] * columns for _ in range(lines)]
        self.row = self.column = 0

    def feed(self, text):
        """Write a string to the terminal."""
        for numbers, letter, control, character in TOKEN.findall(text):
            if letter:
                self._escape(numbers, letter)
            elif control:
                self._control(control)
            else:
                self._put(character)
        return self

    @property
    def text(self):
        """All lines, without the blanks at their ends."""
        return "\n".join("".join(row).rstrip() for row in self.rows).rstrip()

    def _put(self, character):
        if self.column == self.columns:
            self.column = 0
            self._down()
        self.rows[self.row][self.column] = character
        self.column += 1

    def _down(self):
        if self.row + 1 == self.lines:
            self.rows = [*self.rows[1:], [" "] * self.columns]
        else:
            self.row += 1

    def _control(self, control):
        if control == "\r":
            self.column = 0
        elif control == "\n":
            self._down()

    def _escape(self, numbers, letter):
        if letter == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif letter == "H":
            self.row = self.column = 0
        elif letter in "JK":
            first = (self.row, self.column) if numbers != "2" else (0, 0) if letter == "J" else (self.row, 0)
            last = self.row if letter == "K" else self.lines - 1
            for row in range(first[0], last + 1):
                for column in range(first[1] if row == first[0] else 0, self.columns):
                    self.rows[row][column] = " "
