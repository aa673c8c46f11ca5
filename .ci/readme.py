"""Runs the README's two commands literally, and then the cookbook's invocations."""

import json
import re
import subprocess

from local import ROOT, TARGET

BLOCK = r"^```[^\n]*\n(cargo once invoke events/orders\.json[^\n]*)\n(cargo test --workspace[^\n]*)\n.*?^```"


def run(command, **options):
    print("$", command, flush=True)
    bash = ["bash", "-euo", "pipefail", "-c", command]
    return subprocess.run(bash, cwd=ROOT, stdin=subprocess.DEVNULL, check=True, text=True, **options).stdout


def cookbook():
    """Runs each `cargo sqs-once invoke` of the cookbook. Its only message has to be processed."""
    guide = (ROOT / "docs" / "cookbook.md").read_text()
    invocations = re.findall(r"^cargo sqs-once (invoke (?:.*\\\n)*.*)$", guide, re.MULTILINE)
    assert len(invocations) == 2, invocations
    for invocation in invocations:
        told = run(f"{TARGET}/debug/cargo-sqs-once {invocation} --reset --format=json 2>&1 >/dev/null", stdout=subprocess.PIPE)
        print(told, end="")
        records = json.loads(told.splitlines()[-1])["records"]
        assert [record["outcome"] for record in records] == ["processed"], records


def main():
    block = re.search(BLOCK, (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert block, "README.md has no fenced block that starts with the two commands"
    # The README explains a command in a trailing comment, which the shell skips.
    invoke, test = block.groups()
    answer = run(invoke, stdout=subprocess.PIPE)
    print(answer, end="")
    assert list(json.loads(answer)) == ["batchItemFailures"], "standard output is not the function's response"
    run(test)
    cookbook()


if __name__ == "__main__":
    main()
