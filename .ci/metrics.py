"""Checks a real function's metrics against AWS's schema of the embedded metric format, and against docs/metrics.md."""

import json
import os
import subprocess
import zipfile

import jsonschema

from local import LOOPBACK_ONLY_ENV, OUT, ROOT, built
from template import documented_metrics

# The last package of Powertools for AWS Lambda (Python) that contains the schema.
PACKAGE = "aws-lambda-powertools==1.9.1 --hash=sha256:e8a869c700b96d7aa346a326009e4fba24f0f4960c5126cf4971ef4caf9b4365"
# The metrics of settings that the orders function does not have, and of troubles that it does not see here.
RARE = ("Deferred", "BreakerOpened", "OutcomeUnknown", "NoRoom", "Draining", "BlockedGroups", "BlockAge")
EVENTS = ("orders", "duplicate-in-batch", "poison-body")


def schema():
    """Reads the schema from the package."""
    folder = OUT / "emf"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requirements.txt").write_text(PACKAGE)
    download = ["pip", "download", "--quiet", "--no-deps", "--require-hashes", "--requirement=requirements.txt"]
    subprocess.run(download, cwd=folder, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        return json.loads(package.read("aws_lambda_powertools/metrics/schema.json"))


def document(event):
    """The metrics that the orders function writes for a sample event."""
    invoke = [built("cargo-sqs-once"), "invoke", "--reset", f"events/{event}.json"]
    env = {**os.environ, **LOOPBACK_ONLY_ENV, "SQS_ONCE_METRICS": "emf"}
    said = subprocess.run(invoke, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stderr
    (line,) = [line for line in said.splitlines() if line.startswith("{") and '"_aws"' in line]
    return json.loads(line)


def main():
    emf = schema()
    validator = jsonschema.validators.validator_for(emf)(emf)
    # The schema must reject invalid metrics.
    assert not validator.is_valid({"_aws": {"CloudWatchMetrics": []}})
    expected = {name: unit for name, unit in documented_metrics().items() if name not in RARE}
    for event in EVENTS:
        metrics = document(event)
        validator.validate(metrics)
        (directive,) = metrics["_aws"]["CloudWatchMetrics"]
        assert directive["Dimensions"] == [["service"]], "any other dimension would be paid for by its values"
        units = {metric["Name"]: metric["Unit"].lower() for metric in directive["Metrics"]}
        assert units == expected, units.items() ^ expected.items()
    print(f"{len(EVENTS)} batches of a real function: {len(expected)} metrics each, as schema and table say")


if __name__ == "__main__":
    main()
