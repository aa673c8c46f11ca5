"""Local stand-ins for AWS and for the payments service. Checks start them on loopback and stop them cleanly."""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import boto3
import flask
import psutil
from werkzeug.serving import make_server

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "ci"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

# Dummy credentials: no request may reach the real AWS, or be accepted by it.
AWS_ENV = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
# Also for this process: the template's translator needs the region, and boto3 all of it.
os.environ.update(AWS_ENV)
# A proxy that refuses every connection: only loopback is reachable, so tools cannot check for new versions either.
LOOPBACK_ONLY_ENV = {
    **{name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")},
    **{name: "127.0.0.1,localhost" for name in ("NO_PROXY", "no_proxy")},
    "CARGO_NET_OFFLINE": "true",
    "SAM_CLI_TELEMETRY": "0",
    "__SAM_CLI_APP_DIR": str(OUT / "sam-cli"),
}


def built(name):
    """The path of one of the workspace's executables: a binary, or `examples/NAME`.

    Builds it with `cargo test --workspace`. Another selection of packages would enable other features and rebuild the
    AWS SDK. `.ci/run` has already run that command, and sets CI_BUILT.
    """
    if "CI_BUILT" not in os.environ:
        subprocess.run(["cargo", "test", "--workspace", "--no-run", "--quiet"], cwd=ROOT, check=True)
    return TARGET / "debug" / name


def free_port():
    """A loopback port that was free when this function checked."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, condition, seconds, alive=None):
    """Polls `condition` until it is true. Fails after `seconds`, or if the process `alive` ends."""
    deadline = time.monotonic() + seconds
    while not condition():
        if alive is not None and alive.poll() is not None:
            raise SystemExit(f"{what}: the process ended with status {alive.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {seconds} s")
        time.sleep(0.1)


def listens(port):
    """Whether a process accepts connections on a loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def process(command, log, env, stop=signal.SIGTERM, **options):
    """Runs `command` with its output in the file `log`, then stops it and its descendants. Prints the log on failure."""
    with open(log, "wb") as output:
        child = psutil.Popen(
            command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options
        )
    try:
        yield child
    except BaseException:
        tail = Path(log).read_text(errors="replace").splitlines()[-60:]
        print(f"--- the end of {Path(log).name} ---", *tail, "---", sep="\n", flush=True)
        raise
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            # In whatever sessions and process groups they are.
            family = [child, *child.children(recursive=True)]
            child.send_signal(stop)
            psutil.wait_procs([child], timeout=10)
            for alive in psutil.wait_procs(family, timeout=0)[1]:
                alive.kill()
            psutil.wait_procs(family)


@contextlib.contextmanager
def ready(command, **options):
    """Runs a program that reads commands and writes lines. Yields it with the first line, and kills it in the end."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(command, **pipes, **options) as child:
        try:
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


def run_tests(file):
    """Runs a file's tests one after the other, until one fails. Ends with pytest's status."""
    # Only scripts with tests need pytest.
    import pytest

    OUT.mkdir(parents=True, exist_ok=True)
    sys.exit(pytest.main(["--verbose", "--exitfirst", "--tb=short", "-p", "no:cacheprovider", file]))


class Aws:
    """A running stand-in for AWS: its address, and clients for it."""

    def __init__(self, url):
        self.url = url
        self.env = {**AWS_ENV, **LOOPBACK_ONLY_ENV, "AWS_ENDPOINT_URL": url}

    def client(self, service):
        """A boto3 client that sends requests only to this stand-in."""
        return boto3.client(service, endpoint_url=self.url)


@contextlib.contextmanager
def aws(log):
    """Starts the stand-in for AWS. Functions that are deployed to it log into the same file."""
    port = free_port()
    cloud = Aws(f"http://127.0.0.1:{port}")
    with tempfile.TemporaryDirectory(prefix="sqs-once-aws-") as scratch:
        env = {
            **cloud.env,
            "BIND_HOST": "127.0.0.1",
            "MINISTACK_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            # This service would listen on a fixed port.
            "IOT_MTLS_ENABLED": "0",
            "TMPDIR": scratch,
            "HOME": scratch,
        }
        with process(["ministack"], log, env, cwd=scratch) as child:
            wait_until("the stand-in for AWS", lambda: listens(port), 60, alive=child)
            yield cloud


class Payments:
    """A payments service that stores all charge requests."""

    def __init__(self):
        self.charges = defaultdict(list)
        """The idempotency keys of all accepted charges, by order."""
        self.refusals = defaultdict(list)
        """The idempotency keys of all refused charges, by order."""
        self.answers = {}
        """The response statuses for each order, one per request. The last one repeats."""
        self._lock = threading.Lock()
        app = flask.Flask("payments")
        app.add_url_rule("/charges", view_func=self._charge, methods=["POST"])
        logging.getLogger("werkzeug").disabled = True
        self._server = make_server("127.0.0.1", 0, app, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.port}"

    def _charge(self):
        """Stores a request and returns the response with its status."""
        key = flask.request.headers.get("Idempotency-Key")
        if not key:
            return "", 404
        order = flask.request.get_json(force=True)["order_id"]
        with self._lock:
            answers = self.answers.get(order, [201])
            status = answers.pop(0) if len(answers) > 1 else answers[0]
            (self.charges if status < 300 else self.refusals)[order].append(key)
        return "", status

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
