"""Checks the GitHub Action and its example in docs/doctor.md against GitHub's schemas, and runs the action's steps as a
runner does. Nothing is uploaded."""

import json
import os
import re
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import yaml

from local import OUT, ROOT, built

ACTION = ROOT / "action.yml"
PAGE = ROOT / "docs" / "doctor.md"
GOOD = ROOT / "template.yaml"
BAD = "Resources:\n  Q: {Type: AWS::SQS::Queue}\n  F: {Type: AWS::Serverless::Function, Properties: {Timeout: 9, Events: {Q: " \
    "{Type: SQS, Properties: {Queue: !GetAtt Q.Arn}}}}}\n"
UNREAD = "Transform: AWS::LanguageExtensions\nResources:\n  Fn::ForEach::Queues: [Name, [A], {'${Name}': {Type: AWS::SQS::Queue}}]\n"
# The tool of a runner that would take minutes: the doctor is built already.
CARGO = '#!/bin/sh\necho "cargo $*" >>"$CALLS"\nmkdir -p "$RUNNER_TEMP/sqs-once/bin"\nln -sf "$DOCTOR" "$RUNNER_TEMP/sqs-once/bin/"\n'


def check_schemas():
    example = re.search(r"^## In GitHub Actions$.*?^```yaml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)[1]
    workflow = OUT / "doctor-workflow.yml"
    workflow.write_text(example)
    for kind, file in (("actions", ACTION), ("workflows", workflow)):
        schema = f"vendor.github-{kind}"
        subprocess.run(["check-jsonschema", "--builtin-schema", schema, file], check=True)
    (job,) = yaml.safe_load(example)["jobs"].values()
    action = yaml.safe_load(ACTION.read_text())
    unknown = job["steps"][-1]["with"].keys() - action["inputs"].keys()
    assert not unknown, f"the example sets {unknown}"
    named = re.search(r"^Its inputs are (.*)\.$", PAGE.read_text(), re.MULTILINE)[1]
    assert set(re.findall(r"`(\w+)`", named)) == action["inputs"].keys(), named
    for text in (ACTION.read_text(), example):
        for use in re.findall(r"uses: (?!OWNER)(.*)", text):
            # A tag can be moved.
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", use), f"{use} is not pinned by its commit"
    return action


class Runner:
    """Runs a composite action's steps in a folder. Understands the expressions that the action uses, and no others."""

    def __init__(self, action, folder, inputs):
        self.action, self.folder = action, folder
        self.values = {"github.action_path": str(ROOT)}
        for name, of in action["inputs"].items():
            self.values[f"inputs.{name}"] = inputs.get(name, of["default"])
        self.temp = folder / "temp"
        (self.temp / "bin").mkdir(parents=True)
        cargo = self.temp / "bin" / "cargo"
        cargo.write_text(CARGO)
        cargo.chmod(cargo.stat().st_mode | stat.S_IXUSR)
        self.calls = self.temp / "calls"
        self.used = []

    def evaluated(self, text):
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: self.values[found[1]], text)

    def run(self):
        """Returns the exit code of the first step that fails, or 0, and what the steps wrote."""
        written = ""
        for step in self.action["runs"]["steps"]:
            name, equal, value = step.get("if", "").partition(" == ")
            if equal and self.values[name] != value.strip("'"):
                continue
            if "uses" in step:
                self.used.append({key: self.evaluated(value) for key, value in step["with"].items()})
                continue
            assert "${{" not in step["run"], "an expression in a script would be run as code"
            done = self.script(step)
            written += done.stdout
            if done.returncode:
                return done.returncode, written
        return 0, written

    def script(self, step):
        output = self.temp / "output"
        output.write_text("")
        env = os.environ | {name: self.evaluated(value) for name, value in step.get("env", {}).items()} | {
            "PATH": f"{self.temp / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(output),
            "CALLS": str(self.calls),
            "DOCTOR": str(built("cargo-sqs-once")),
        }
        # The command line of `shell: bash` in GitHub's documentation.
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        folder = self.evaluated(step.get("working-directory", str(self.folder)))
        done = subprocess.run(bash, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{name}"] = value
        return done


def run(action, files, **inputs):
    """Runs the action on these files. Returns its exit code, its log, its uploads, and its SARIF findings' rules."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        runner = Runner(action, Path(folder), inputs)
        code, log = runner.run()
        built_with = runner.calls.read_text()
        for option in re.findall(r"--[\w-]+", built_with):
            assert option in cargo_options(), f"cargo install has no {option}"
        assert "--path crates/cargo-sqs-once" in built_with
        rules = None
        if runner.used:
            (upload,) = runner.used
            (findings,) = json.loads(Path(upload["sarif_file"]).read_text())["runs"]
            rules = {result["ruleId"] for result in findings["results"]}
        left = {path.name for path in Path(folder).iterdir()} - files.keys() - {"temp"}
        assert not left, f"the action left {left}"
        return code, log, rules


@cache
def cargo_options():
    told = subprocess.run(["cargo", "install", "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return set(re.findall(r"--[\w-]+", told))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    action = check_schemas()
    good = GOOD.read_text()
    code, log, rules = run(action, {"template.yaml": good})
    assert (code, rules) == (0, set()) and "nothing found" in log, (code, log)
    code, log, rules = run(action, {"template.yaml": BAD})
    assert code == 1 and {"dead-letter-queue-missing", "partial-batch-response-missing"} <= rules, (code, log)
    assert "template.yaml:2:3: error: The queue Q has no dead-letter queue." in log, log
    # The name of the file is data, and an allowed rule is gone.
    name = "a $(touch injected) template.yaml"
    allowed = "\n".join(rules - {"dead-letter-queue-missing"})
    code, log, rules = run(action, {name: BAD}, template=name, allow=allowed)
    assert (code, rules) == (1, {"dead-letter-queue-missing"}), (code, log)
    code, log, rules = run(action, {"template.yaml": BAD}, upload="false")
    assert (code, rules) == (1, None), (code, log)
    for strict, expected in (("false", 0), ("true", 2)):
        code, log, rules = run(action, {"template.yml": UNREAD}, strict=strict)
        assert (code, rules) == (expected, {"part-not-examined"}), (strict, code, log)
    for files, inputs, reason in (
        ({}, {}, "there is no template.yaml"),
        ({}, {"template": "--help"}, "--help was not examined"),
        ({"template.yaml": good}, {"allow": "no-such-rule"}, "the rules are"),
    ):
        code, log, rules = run(action, files, **inputs)
        assert code in (1, 2) and rules is None and reason in log, (code, log)
    print("the action's steps: findings, allowed rules, odd names, strict, no upload, and nothing to examine")


if __name__ == "__main__":
    main()
