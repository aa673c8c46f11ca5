"""Runs the README's two commands literally."""

import json
import re
import subprocess

from local import ROOT

COMMANDS = ["cargo once invoke events/orders.json", "cargo test --workspace"]


def commands():
    """The commands at the start of the README's first matching code block."""
    readme = (ROOT / "README.md").read_text()
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", readme, re.DOTALL | re.MULTILINE):
        # The README explains the command in a trailing comment.
        first = [re.sub(r"\s+#.*", "", line).strip() for line in block.splitlines()[: len(COMMANDS)]]
        if first == COMMANDS:
            return block.splitlines()[: len(COMMANDS)]
    raise SystemExit(f"README.md has no fenced block that starts with {COMMANDS}")


def main():
    invoke, test = commands()
    print("$", invoke, flush=True)
    answer = run(invoke, stdout=subprocess.PIPE, text=True).stdout
    print(answer, end="")
    response = json.loads(answer)
    assert list(response) == ["batchItemFailures"], f"standard output is not the function's response: {answer!r}"
    print("$", test, flush=True)
    run(test)


def run(command, **options):
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], cwd=ROOT, stdin=subprocess.DEVNULL, check=True, **options
    )


if __name__ == "__main__":
    main()
