"""A Lambda runtime without extras: one connection to the Runtime API, one event after the other."""

import json
import os
import time
from http.client import HTTPConnection


class Context:
    """What Powertools reads of Lambda's context."""

    function_name = "bench"
    function_version = "$LATEST"
    memory_limit_in_mb = 1769
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:bench"

    def __init__(self, request_id: str, deadline_ms: int):
        self.aws_request_id = request_id
        self._deadline_ms = deadline_ms

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self._deadline_ms - int(time.time() * 1000))


def run(handler):
    connection = HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])
    base = "/2018-06-01/runtime/invocation"
    while True:
        connection.request("GET", f"{base}/next")
        event = connection.getresponse()
        request_id = event.headers["Lambda-Runtime-Aws-Request-Id"]
        deadline_ms = int(event.headers["Lambda-Runtime-Deadline-Ms"])
        answer = handler(json.loads(event.read()), Context(request_id, deadline_ms))
        connection.request("POST", f"{base}/{request_id}/response", json.dumps(answer))
        connection.getresponse().read()
