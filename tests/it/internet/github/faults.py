"""Answers that a test asks for in place of the real ones."""

import threading
import time

from answers import Answer, Refusal


class Faults:
    """Each answers the next requests whose method, host and target match."""

    def __init__(self):
        self.rows, self.lock = [], threading.Lock()

    def add(self, row):
        """A row has `host`, `target` (a part of it), `method` (or none for any), `status`, `body`, `headers`, `times`,
        and `delay` in seconds; without `status` the real answer comes, late."""
        with self.lock:
            self.rows.append(dict(row))

    def apply(self, request):
        row = self.take(request)
        if row is None:
            return
        time.sleep(row.get("delay", 0))
        if row.get("status"):
            headers = [tuple(pair) for pair in row.get("headers", [])]
            raise Refusal(Answer(row["status"], row.get("body", ""), *headers))

    def take(self, request):
        with self.lock:
            for row in self.rows:
                same_method = row.get("method") in (None, request.method)
                same_host = row.get("host") in (None, request.host)
                if same_method and same_host and row.get("target", "") in request.target:
                    row["times"] = row.get("times", 1) - 1
                    if row["times"] == 0:
                        self.rows.remove(row)
                    return row
        return None
