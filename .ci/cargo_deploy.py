"""Tests `cargo lambda deploy`: Cargo.toml configures the function like the template."""

import json
import os
import subprocess

from local import OUT, ROOT, aws
from template import only, transform


def main():
    with aws(OUT / "cargo-deploy-aws.log") as cloud:
        trust = json.dumps({"Version": "2012-10-17", "Statement": []})
        role = cloud.client("iam").create_role(RoleName="orders", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        # This uploads the last output of `cargo lambda build`, whatever it is, because the check does not run it.
        command = ["cargo", "lambda", "deploy", "orders", "--role", role, "--env-var", "SQS_ONCE_TABLE=orders"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **cloud.env}, stdin=subprocess.DEVNULL, check=True)

        deployed = cloud.client("lambda").get_function_configuration(FunctionName="orders")
        (group,) = cloud.client("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda/orders")["logGroups"]
    template = transform()
    wanted = only(template, "Lambda::Function")[1]
    for name in ("MemorySize", "Timeout", "TracingConfig", "Runtime"):
        assert deployed[name] == wanted[name], f"{name}: Cargo.toml gives {deployed[name]}, the template {wanted[name]}"
    retention = only(template, "Logs::LogGroup")[1]["RetentionInDays"]
    assert group["retentionInDays"] == retention, f"Cargo.toml keeps logs for {group['retentionInDays']} days"
    print("the function is configured as in the template")


if __name__ == "__main__":
    main()
