"""Compares the tables of `dynamodb-for-tests` with those of ministack, by random sequences of requests.

`python3 .ci/dynamodb.py --operations 1000000 --seed 7` is a long run. It needs the tools of .ci/requirements.txt on the PATH.
"""

import argparse
import subprocess

from local import OUT, ROOT, aws, built


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=10_000, help="how many operations to compare")
    parser.add_argument("--seed", type=int, default=1, help="which histories")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    program = built("examples/agreement")
    options = ["--operations", str(arguments.operations), "--seed", str(arguments.seed)]
    with aws(OUT / "dynamodb-aws.log") as cloud:
        outcome = subprocess.run([program, "--endpoint", cloud.url, *options], cwd=ROOT)
    # The program prints a difference and then exits.
    raise SystemExit(outcome.returncode)


if __name__ == "__main__":
    main()
