"""Runs the library's tests with the engine that is going to replace the one in use: see `batch/path/mod.rs`."""

import json
import os
import subprocess

from local import ROOT


def executable():
    """The tests of the library, as the README's test command has built them."""
    build = ["cargo", "test", "--workspace", "--no-run", "--message-format=json"]
    messages = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for message in map(json.loads, messages.splitlines()):
        path = message.get("executable")
        if path and message["manifest_path"].endswith("/crates/sqs-once/Cargo.toml") and message["target"]["name"] == "all":
            return path
    raise SystemExit("cargo has built no tests of sqs-once")


def main():
    tests = [executable(), "--quiet"]
    env = {**os.environ, "TEST_ENGINE": "path"}
    subprocess.run(tests, cwd=ROOT / "crates" / "sqs-once", env=env, check=True)


if __name__ == "__main__":
    main()
