"""The copy back of a job, on a thread of a test."""

import threading

DEADLINE_S = 60


class FollowingBack:
    """`follow_back` of a job on a thread, while it is entered."""

    def __init__(self, spark, job):
        self._spark, self._job = spark, job
        self._thread = threading.Thread(target=self._run, name="follow back")
        self._seen = threading.Condition()
        self.states, self.end, self.error = [], None, None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "no command ended the copy back"

    def until(self, condition):
        """Wait until a state meets a condition."""
        with self._seen:
            met = self._seen.wait_for(lambda: self.error or any(map(condition, self.states)), DEADLINE_S)
        assert self.error is None
        assert met, self.states

    def _run(self):
        try:
            self.end = self._job.follow_back(self._spark, on_copied=self._add)
        except Exception as error:
            with self._seen:
                self.error = error
                self._seen.notify_all()

    def _add(self, state):
        with self._seen:
            self.states.append(state)
            self._seen.notify_all()
