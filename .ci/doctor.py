"""Compares the doctor with cfn-lint, its output with SARIF's schema, and its findings in public templates with a list."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import jsonschema

from local import OUT as CI
from local import ROOT, built
from npm import packed

OUT = CI / "doctor"
PROGRAM = built("cargo-sqs-once")
# For each rule a folder with an example that breaks it.
BAD = OUT / "bad"
EXPECTED = ROOT / ".ci" / "doctor-public.txt"

# The rules that cfn-lint also has, because both resources are in the same template.
SEEN_BY_CFN_LINT = {
    "fifo-batch-too-large",
    "fifo-with-standard-dead-letter-queue",
    "standard-with-fifo-dead-letter-queue",
    "visibility-timeout-below-function-timeout",
}
# npm packages with their hashes from `npm view PACKAGE dist.integrity`.
SARIF_SCHEMA = (
    "@microsoft/jest-sarif@1.0.0-beta.0",
    "sha512-A1fOhPd6Ic5iDk4F9YPw1qNB4XF+7+IviR7xl8r2F6QzQkx5cpY9LsGk2rExiFIEcBbjpVnSmwWGBukASkiQ9A==",
)
# Templates that the AWS CDK generates from AWS's own patterns for queues.
PATTERNS = (
    (
        "@aws-solutions-constructs/aws-sqs-lambda@2.104.0",
        "sha512-CYK/MQv1qlcasUx3qYrbqU+IIpyn+ES1I84C1M7YDlysYftFJVYh1pe6e6FtTIK3DKig1UOWczSzM/Z0XJlkRw==",
    ),
    (
        "@aws-solutions-constructs/aws-lambda-sqs-lambda@2.103.0",
        "sha512-wW9ow224uKPmNIhkiFQEQOIfPHQHFWar7QMwuCvqTo18Bvats0uqvOljliFH20SWAjVOqPxt/sW+a66g3gEBrg==",
    ),
)
# The linter's test templates, many of them from bug reports.
LINTER = "cfn-lint"


def doctor(*arguments):
    """Runs the doctor. Returns its exit status, standard output and standard error."""
    run = subprocess.run([PROGRAM, "doctor", *map(str, arguments)], capture_output=True, text=True, cwd=OUT)
    assert run.returncode in (0, 1) and "panicked" not in run.stderr, f"{arguments}: {run.returncode} {run.stderr}"
    return run.returncode, run.stdout, run.stderr


def npm(package, integrity):
    """Downloads an npm package, and returns the folder of its files."""
    folder = OUT / package.replace("/", "-")
    packed(package, integrity, folder)
    return unpack(folder)


def sdist(name):
    """Downloads a Python package's source with its tests, in the version and with a hash from .ci/requirements.txt."""
    folder = OUT / name
    folder.mkdir()
    pinned = (ROOT / ".ci" / "requirements.txt").read_text()
    only = OUT / f"{name}.txt"
    only.write_text(re.search(rf"^{name}==(.*\\\n)*.*\n", pinned, re.MULTILINE)[0])
    # Only its build dependencies are wheels.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]
    subprocess.run([*command, "--require-hashes", "--dest", folder, "--requirement", only], check=True)
    return unpack(folder)


def unpack(folder):
    (archive,) = folder.iterdir()
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
    return folder


def own_templates():
    """The doctor finds nothing in the repository's own templates."""
    for template in ("template.yaml", "examples/inventory/template.yaml"):
        _, said, _ = doctor(ROOT / template)
        assert said == "nothing found\n", f"{template}: {said}"
    print("the repository's own templates: nothing found")


def beside_cfn_lint():
    """cfn-lint misses most of the doctor's findings, and accepts the templates that the doctor has fixed."""
    bad = sorted(BAD.glob("*/template.yaml"))
    found = set()
    fixed = []
    for template in bad:
        copy = shutil.copytree(template.parent, OUT / "fixed" / template.parent.name) / template.name
        _, said, _ = doctor(copy, "--json")
        found |= {finding["rule"] for finding in json.loads(said)["findings"]}
        doctor(copy, "--fix")
        if copy.read_text() != template.read_text():
            fixed.append(copy)
    rules = {template.parent.name for template in bad}
    assert found == rules, rules ^ found
    # One run for all templates, because cfn-lint starts slowly.
    complaints = cfn_lint([*bad, *fixed])
    seen = {Path(match["Filename"]).parent.name for match in complaints if Path(match["Filename"]) in bad}
    assert seen == SEEN_BY_CFN_LINT, f"cfn-lint has something to say of {seen}"
    of_fixed = [match for match in complaints if Path(match["Filename"]) not in bad]
    assert not of_fixed, of_fixed
    print(
        f"{len(bad)} SAM templates: the doctor finds something in each, cfn-lint in {len(seen)}; "
        f"and nothing in the {len(fixed)} that the doctor fixed"
    )


def cfn_lint(templates):
    run = subprocess.run(["cfn-lint", "--format", "json", "--", *templates], capture_output=True, text=True)
    assert run.stdout, run.stderr
    return json.loads(run.stdout)


def sarif():
    """The SARIF output for a template and for a Terraform plan matches the schema."""
    schema = json.loads((npm(*SARIF_SCHEMA) / "package/lib/schemas/sarif-2.1.0-rtm.5.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    plan = ROOT / "crates" / "sqs-once-doctor" / "tests" / "plans" / "bad.json"
    results = 0
    for file in (BAD / "permission-missing" / "template.yaml", plan, ROOT / "template.yaml"):
        _, said, _ = doctor(file, "--sarif")
        log = json.loads(said)
        validator.validate(log)
        results += len(log["runs"][0]["results"])
    assert results > 2
    print(f"SARIF: {results} results and their rules are as the schema says")


def public_templates():
    """The doctor examines public templates without crashing. Its findings match a list that was reviewed by hand."""
    lines, examined, refused = [], 0, 0
    for folder in (*(npm(*pattern) for pattern in PATTERNS), sdist(LINTER)):
        snapshots = [it for it in folder.rglob("*.template.json") if "DeployAssert" not in it.name]
        fixtures = [it for it in folder.rglob("*") if "fixtures/templates" in str(it) and it.suffix in (".yaml", ".yml", ".json")]
        for template in sorted({*snapshots, *fixtures}):
            status, said, error = doctor(template, "--json")
            if not said:
                # Deliberately broken templates.
                assert "not examined" in error, f"{template}: {error}"
                refused += 1
                continue
            examined += 1
            for finding in json.loads(said)["findings"]:
                lines.append(f"{template.name} {finding['resource']}: {finding['rule']}")
    expected = [line for line in EXPECTED.read_text().splitlines() if line and not line.startswith("#")]
    changed = sorted(set(lines) ^ set(expected))
    assert not changed, "found or expected, but not both:\n" + "\n".join(changed)
    assert examined > 150, examined
    print(f"{examined} public templates, and {refused} that are none: {len(lines)} findings, each one judged")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    subprocess.run([built("examples/rule_templates"), BAD], check=True)
    own_templates()
    beside_cfn_lint()
    sarif()
    public_templates()


if __name__ == "__main__":
    main()
