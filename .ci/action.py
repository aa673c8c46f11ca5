"""Checks the GitHub Action and its example in docs/doctor.md against GitHub's schemas, and runs the action's steps as a
runner does. Nothing is uploaded."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from local import OUT, ROOT, built, run_tests

TEXT = (ROOT / "action.yml").read_text()
ACTION = yaml.safe_load(TEXT)
PAGE = (ROOT / "docs" / "doctor.md").read_text()
EXAMPLE = re.search(r"^## In GitHub Actions$.*?^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]
GOOD = (ROOT / "template.yaml").read_text()
BAD = "Resources:\n  Q: {Type: AWS::SQS::Queue}\n  F: {Type: AWS::Serverless::Function, Properties: {Timeout: 9, Events: {Q: " \
    "{Type: SQS, Properties: {Queue: !GetAtt Q.Arn}}}}}\n"
UNREAD = "Transform: AWS::LanguageExtensions\nResources:\n  Fn::ForEach::Queues: [Name, [A], {'${Name}': {Type: AWS::SQS::Queue}}]\n"
ODD = "a $(touch injected) template.yaml"
# The tool of a runner that would take minutes: the doctor is built already. The real one reads the options.
CARGO = """#!/bin/sh
case "$*" in *"--path crates/cargo-sqs-once --root $RUNNER_TEMP/sqs-once"*) ;; *) exit 1 ;; esac
"$REAL_CARGO" "$@" -h >/dev/null || exit 1
mkdir -p "$RUNNER_TEMP/sqs-once/bin"
ln -s "$DOCTOR" "$RUNNER_TEMP/sqs-once/bin/"
"""


def run(folder, inputs):
    """Runs the steps in a folder. Understands only the expressions that the action uses. Returns the exit code of the
    first step that fails, or 0, what the steps wrote, and the rules of the uploaded findings."""
    values = {f"inputs.{name}": inputs.get(name, of["default"]) for name, of in ACTION["inputs"].items()}
    values["github.action_path"] = str(ROOT)
    temp, written, rules = folder / "temp", "", None
    (temp / "bin").mkdir(parents=True)
    (temp / "bin" / "cargo").write_text(CARGO)
    (temp / "bin" / "cargo").chmod(0o755)

    def evaluated(text):
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: values[found[1]], text)

    for step in ACTION["runs"]["steps"]:
        name, equal, value = step.get("if", "").partition(" == ")
        if equal and values[name] != value.strip("'"):
            continue
        if "uses" in step:
            (findings,) = json.loads(Path(evaluated(step["with"]["sarif_file"])).read_text())["runs"]
            rules = {result["ruleId"] for result in findings["results"]}
            continue
        assert "${{" not in step["run"], "an expression in a script would be run as code"
        output = temp / "output"
        output.write_text("")
        env = os.environ | {name: evaluated(value) for name, value in step.get("env", {}).items()} | {
            "PATH": f"{temp / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "REAL_CARGO": shutil.which("cargo"),
            "RUNNER_TEMP": str(temp),
            "GITHUB_OUTPUT": str(output),
            "DOCTOR": str(built("cargo-sqs-once")),
        }
        # The command line of `shell: bash` in GitHub's documentation.
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        where = evaluated(step.get("working-directory", str(folder)))
        done = subprocess.run(bash, cwd=where, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        written += done.stdout
        if done.returncode:
            return done.returncode, written, rules
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        values |= {f"steps.{step['id']}.outputs.{name}": value for name, value in outputs.items()}
    return 0, written, rules


@pytest.mark.parametrize(("kind", "text"), [("actions", TEXT), ("workflows", EXAMPLE)])
def test_action_and_example_are_as_githubs_schemas_say(kind, text):
    file = OUT / f"doctor-{kind}.yml"
    file.write_text(text)
    subprocess.run(["check-jsonschema", "--builtin-schema", f"vendor.github-{kind}", file], check=True)
    for use in re.findall(r"uses: (?!OWNER)(.*)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", use), "not pinned by its commit: a tag can be moved"


def test_the_example_sets_inputs_that_exist_and_the_page_names_all():
    (job,) = yaml.safe_load(EXAMPLE)["jobs"].values()
    assert job["steps"][-1]["with"].keys() <= ACTION["inputs"].keys()
    named = re.search(r"^Its inputs are (.*)\.$", PAGE, re.MULTILINE)[1]
    assert set(re.findall(r"`(\w+)`", named)) == ACTION["inputs"].keys()


FIRST = "dead-letter-queue-missing"
OTHERS = {"partial-batch-response-missing", "queue-accepts-plain-http", "visibility-timeout-too-short"}


@pytest.mark.parametrize(
    ("files", "inputs", "code", "said", "rules"),
    [
        ({"template.yaml": GOOD}, {}, 0, "nothing found", set()),
        ({"template.yaml": BAD}, {}, 1, "template.yaml:2:3: error: The queue Q has no dead-letter queue.", {FIRST} | OTHERS),
        # The name of the file is data, and an allowed rule is gone.
        ({ODD: BAD}, {"template": ODD, "allow": "\n".join(OTHERS)}, 1, f"{ODD}:2:3: error", {FIRST}),
        ({"template.yaml": BAD}, {"upload": "false"}, 1, "", None),
        ({"template.yml": UNREAD}, {"strict": "false"}, 0, "", {"part-not-examined"}),
        ({"template.yml": UNREAD}, {"strict": "true"}, 2, "", {"part-not-examined"}),
        ({}, {}, 1, "there is no template.yaml", None),
        ({}, {"template": "--help"}, 1, "--help was not examined", None),
        ({"template.yaml": GOOD}, {"allow": "no-such-rule"}, 2, "the rules are", None),
    ],
)
def test_the_steps(tmp_path, files, inputs, code, said, rules):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found, written, uploaded = run(tmp_path, inputs)
    assert (found, uploaded) == (code, rules) and said in written
    assert {path.name for path in tmp_path.iterdir()} == {"temp", *files}, "the action left files"


if __name__ == "__main__":
    run_tests(__file__)
