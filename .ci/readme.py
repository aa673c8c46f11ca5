"""Runs the README's two commands literally."""

import json
import re
import subprocess

from local import ROOT

BLOCK = r"^```[^\n]*\n(cargo once invoke events/orders\.json[^\n]*)\n(cargo test --workspace[^\n]*)\n.*?^```"


def run(command, **options):
    print("$", command, flush=True)
    bash = ["bash", "-euo", "pipefail", "-c", command]
    return subprocess.run(bash, cwd=ROOT, stdin=subprocess.DEVNULL, check=True, text=True, **options).stdout


def main():
    block = re.search(BLOCK, (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert block, "README.md has no fenced block that starts with the two commands"
    # The README explains a command in a trailing comment, which the shell skips.
    invoke, test = block.groups()
    answer = run(invoke, stdout=subprocess.PIPE)
    print(answer, end="")
    assert list(json.loads(answer)) == ["batchItemFailures"], "standard output is not the function's response"
    run(test)


if __name__ == "__main__":
    main()
