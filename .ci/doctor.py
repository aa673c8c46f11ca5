"""Compares the doctor with cfn-lint, its output with SARIF's schema, and its findings in public templates with a list."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import jsonschema
import pytest

from local import OUT as CI
from local import ROOT, built, run_tests
from npm import packed

OUT = CI / "doctor"
# For each rule a folder with an example that breaks it.
BAD = OUT / "bad"
# The rules that cfn-lint also has, because both resources are in the same template.
SEEN_BY_CFN_LINT = {
    "dead-letter-queue-of-other-type",
    "value-refused",
    "visibility-timeout-below-function-timeout",
}
# npm packages with their hashes from `npm view PACKAGE dist.integrity`.
SARIF_SCHEMA = (
    "@microsoft/jest-sarif@1.0.0-beta.0",
    "sha512-A1fOhPd6Ic5iDk4F9YPw1qNB4XF+7+IviR7xl8r2F6QzQkx5cpY9LsGk2rExiFIEcBbjpVnSmwWGBukASkiQ9A==",
)
# Templates that the AWS CDK generates from AWS's own patterns for queues.
PATTERNS = {
    "@aws-solutions-constructs/aws-sqs-lambda@2.104.0":
        "sha512-CYK/MQv1qlcasUx3qYrbqU+IIpyn+ES1I84C1M7YDlysYftFJVYh1pe6e6FtTIK3DKig1UOWczSzM/Z0XJlkRw==",
    "@aws-solutions-constructs/aws-lambda-sqs-lambda@2.103.0":
        "sha512-wW9ow224uKPmNIhkiFQEQOIfPHQHFWar7QMwuCvqTo18Bvats0uqvOljliFH20SWAjVOqPxt/sW+a66g3gEBrg==",
}


@pytest.fixture(scope="module", autouse=True)
def out():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    subprocess.run([built("examples/rule_templates"), BAD], check=True)


def doctor(*arguments):
    """Runs the doctor. Returns its standard output and standard error."""
    command = [built("cargo-sqs-once"), "doctor", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, cwd=OUT)
    assert run.returncode in (0, 1) and "panicked" not in run.stderr, arguments
    return run.stdout, run.stderr


def findings(template):
    return json.loads(doctor(template, "--format", "json")[0])["findings"]


def unpacked(archive):
    """Unpacks an archive beside itself. Returns the folder."""
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent, filter="data")
    return archive.parent


def npm(package, integrity):
    return unpacked(packed(package, integrity, OUT / package.replace("/", "-")))


def cfn_lint_source():
    """The linter's source with its test templates, many of them from bug reports, in the version that is installed."""
    pinned = (ROOT / ".ci" / "requirements.txt").read_text()
    (OUT / "cfn-lint.txt").write_text(re.search(r"^cfn-lint==(.*\\\n)*.*\n", pinned, re.MULTILINE)[0])
    # Only its build dependencies are wheels.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=cfn-lint", "--require-hashes"]
    subprocess.run([*command, "--dest=cfn-lint", "--requirement=cfn-lint.txt"], cwd=OUT, check=True)
    (archive,) = (OUT / "cfn-lint").iterdir()
    return unpacked(archive)


@pytest.mark.parametrize("template", ["template.yaml", "examples/inventory/template.yaml"])
def test_the_doctor_finds_nothing_in_the_repositorys_own_templates(template):
    assert doctor(ROOT / template)[0] == "nothing found\n"


def test_cfn_lint_misses_most_of_the_doctors_findings_and_accepts_the_templates_that_the_doctor_has_fixed():
    bad = sorted(BAD.glob("*/template.yaml"))
    found, fixed = set(), []
    for template in bad:
        copy = shutil.copytree(template.parent, OUT / "fixed" / template.parent.name) / template.name
        found |= {finding["rule"] for finding in findings(copy)}
        doctor(copy, "--fix")
        if copy.read_text() != template.read_text():
            fixed.append(copy)
    assert found == {template.parent.name for template in bad}
    fixed.append(BAD / "conditional.yaml")
    doctor(fixed[-1], "--fix")
    # One run for all templates, because cfn-lint starts slowly.
    run = subprocess.run(["cfn-lint", "--format", "json", "--", *bad, *fixed], stdout=subprocess.PIPE)
    # cfn-lint does not know the types of the custom event bus yet.
    known = [match for match in json.loads(run.stdout) if "'AWS::EventsV2::" not in match["Message"]]
    complaints = {Path(match["Filename"]) for match in known}
    assert {file.parent.name for file in complaints & set(bad)} == SEEN_BY_CFN_LINT
    assert complaints & set(fixed) == set() != set(fixed)


@pytest.mark.parametrize(
    ("file", "finds"),
    [
        (BAD / "permission-missing" / "template.yaml", True),
        (ROOT / "crates" / "sqs-once-doctor" / "tests" / "plans" / "bad.json", True),
        (ROOT / "template.yaml", False),
    ],
)
def test_the_sarif_output_matches_the_schema(file, finds):
    schema = json.loads((npm(*SARIF_SCHEMA) / "package/lib/schemas/sarif-2.1.0-rtm.5.json").read_text())
    log = json.loads(doctor(file, "--format", "sarif")[0])
    jsonschema.validate(log, schema)
    assert bool(log["runs"][0]["results"]) == finds


def test_the_findings_in_public_templates_are_those_that_were_reviewed_by_hand():
    found, examined = set(), 0
    for folder in (*(npm(*pattern) for pattern in PATTERNS.items()), cfn_lint_source()):
        files = (it for it in folder.rglob("*") if it.suffix in (".yaml", ".yml", ".json") and "DeployAssert" not in it.name)
        for template in (it for it in files if "fixtures/templates" in str(it) or it.name.endswith(".template.json")):
            said, error = doctor(template, "--format", "json")
            # Some are deliberately broken.
            assert said or "not examined" in error, template
            examined += bool(said)
            found |= {f"{template.name} {it['resource']}: {it['rule']}" for it in json.loads(said or '{"findings": []}')["findings"]}
    reviewed = (ROOT / ".ci" / "doctor-public.txt").read_text().splitlines()
    assert found == {line for line in reviewed if line and not line.startswith("#")}
    assert examined > 150


if __name__ == "__main__":
    run_tests(__file__)
