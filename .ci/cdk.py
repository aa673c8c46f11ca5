"""Creates a project of every variant with `cargo sqs-once new --iac cdk`, synthesises its template, and compares that with
SAM's. Checks with the CDK CLI how one project's function is built."""

import json
import os
import shutil
import subprocess

from local import AWS_ENV, LOOPBACK_ONLY_ENV, OUT, ROOT, built
from new import MADE_OF_OTHER, OTHER_PROJECT, TEMPLATE, VARIANTS, deployed, generate, same, same_bus
from npm import installed
from template import check_thresholds, of_type, only, source

FOLDER = OUT / "cdk"
# All projects below use these packages, as Node.js looks for them in parent folders.
MODULES = FOLDER / "node_modules"
BUILT = "new-fifo-sns-dynamodb"
ENV = {**os.environ, **AWS_ENV, **LOOPBACK_ONLY_ENV, "CDK_DISABLE_CLI_TELEMETRY": "true"}

# SAM's template joins a VPC only with its parameters, and the construct always knows.
BY_DESIGN = (r"function: may (not )?ec2:",)
# Settings of the construct that are not the defaults. One is not for users.
OTHER = """timeout: Duration.seconds(100), memorySize: 512, batchSize: 7, maxConcurrency: 3,
  environment: { POWERTOOLS_METRICS_NAMESPACE: 'Shop', SQS_ONCE_SERVICE: 'silences the alarms' },"""
# Runs apps. Each writes its output when the process ends.
SYNTHESISE = """
process.setMaxListeners(0);
for (const { folder, out, app, context } of JSON.parse(process.argv[1])) {
  process.chdir(folder);
  process.env.CDK_OUTDIR = `${folder}/${out}`;
  process.env.CDK_CONTEXT_JSON = JSON.stringify(context);
  require(app);
}
"""
# A substitute for `cargo lambda build`. It records the arguments, and writes an empty executable.
CARGO = """#!/bin/sh
echo "$*" >>"$0.log"
while [ $# -gt 1 ]; do
    if [ "$1" = --lambda-dir ]; then touch "$2/bootstrap"; fi
    shift
done
"""


def run(command, cwd=FOLDER, env=None, **options):
    print("$", *(str(it)[:200] for it in command), flush=True)
    return subprocess.run(command, cwd=cwd, env=env or ENV, stdin=subprocess.DEVNULL, check=True, **options)


def check_package():
    """Compiles the package of the construct."""
    folder = FOLDER / "package"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "deploy" / "cdk", folder, ignore=shutil.ignore_patterns("lib", "node_modules"))
    run([MODULES / ".bin" / "tsc", "--project", folder])
    assert (folder / "lib" / "index.d.ts").is_file()
    package, pinned = (json.loads((it / "package.json").read_text()) for it in (folder, TEMPLATE / "cdk"))
    versions = {**pinned["dependencies"], **pinned["devDependencies"]}
    assert package["devDependencies"].items() <= versions.items(), "the package is built with other versions"


def settings(name):
    """The context of a variant. Some variants have the optional settings."""
    _, source, effect = VARIANTS[name]
    context = {}
    if source != "sqs":
        context["alarmTopicArn"] = "arn:aws:sns:us-east-1:123456789012:alarms"
    if effect == "postgres":
        context |= {
            "databaseHost": "orders.cluster-abc.us-east-1.rds.amazonaws.com",
            "databaseName": "orders",
            "databaseUser": "shop",
            "databaseResourceId": "cluster-ABC",
        }
        if source == "sns":
            context["subnetIds"] = "subnet-0123456789abcdef0,subnet-0123456789abcdef1"
            context["securityGroupIds"] = "sg-0123456789abcdef0"
            context["vpcId"] = "vpc-0123456789abcdef0"
    return context


def synthesise():
    """Type-checks all projects, and writes their templates like `cdk ls`, which builds no functions."""
    # One compilation and one process for all, because loading the AWS library takes seconds.
    projects, compiled = FOLDER / "cdk", FOLDER / "build"
    shutil.rmtree(compiled, ignore_errors=True)
    config = {
        "extends": f"./cdk/{BUILT}/cdk/tsconfig.json",
        "include": ["cdk/*/cdk/bin", "cdk/*/cdk/lib"],
        "compilerOptions": {"rootDir": str(projects), "outDir": str(compiled)},
    }
    (FOLDER / "tsconfig.json").write_text(json.dumps(config))
    app = projects / OTHER_PROJECT / "cdk" / "bin" / "app.ts"
    construct = "new SqsOnceConsumer(stack, 'Consumer', {"
    other = app.read_text().replace(construct, f"{construct} {OTHER}")
    app.with_name("other.ts").write_text(f"import {{ Duration }} from 'aws-cdk-lib';\n{other}")
    run([MODULES / ".bin" / "tsc"])
    apps = []
    for name in VARIANTS:
        certificates = projects / name / "certificates"
        certificates.mkdir()
        (certificates / "global-bundle.pem").touch()
        context = {"aws:cdk:bundling-stacks": [], "aws:cdk:enable-path-metadata": True, **settings(name)}
        outputs = {"app": "cdk.out", **({"other": "other.out"} if name == OTHER_PROJECT else {})}
        for app, out in outputs.items():
            app = compiled / name / "cdk" / "bin" / f"{app}.js"
            apps.append({"folder": str(projects / name / "cdk"), "out": out, "app": str(app), "context": context})
    run(["node", "-e", SYNTHESISE, json.dumps(apps)])


def output(name, out="cdk.out"):
    return FOLDER / "cdk" / name / "cdk" / out / f"{name}.template.json"


def examine(new):
    """Runs the doctor and cfn-lint on every template."""
    for name in VARIANTS:
        examined = run([new, "doctor", "--strict"], cwd=FOLDER / "cdk" / name, stdout=subprocess.PIPE, text=True)
        assert examined.stdout == "nothing found\n", examined.stdout
    # W3005: CDK writes dependencies that references imply already.
    # E3006: cfn-lint does not know the custom event bus yet.
    options = ["--regions", AWS_ENV["AWS_REGION"], "--ignore-checks", "W3005", "E3006", "--"]
    run(["cfn-lint", *options, *map(output, VARIANTS)])


def buses(name):
    """The properties of a variant's event bus and subscriber, whose types are generated from CloudFormation's schema."""
    resources = json.loads(output(name).read_text())["Resources"].values()
    return [it["Properties"] for kind in ("EventBus", "Subscriber") for it in resources if it["Type"] == f"AWS::EventsV2::{kind}"]


def check_other():
    """Checks that the alarms follow other settings."""
    path = output(OTHER_PROJECT, "other.out")
    other, text = deployed(path), path.read_text()
    assert MADE_OF_OTHER <= other, MADE_OF_OTHER - other
    assert "sqs-once" not in text, "an alarm or the dashboard ignores the metrics' namespace"
    template = json.loads(text)
    check_thresholds(of_type(template, "CloudWatch::Alarm"), source(template)[1])
    service = only(template, "Lambda::Function")[1]["Environment"]["Variables"]["SQS_ONCE_SERVICE"]
    assert service == OTHER_PROJECT, f"the alarms' service is not {service}"


def check_build():
    """Checks what `cdk synth` tells cargo to build."""
    stand_in = FOLDER / "bin" / "cargo"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text(CARGO)
    stand_in.chmod(0o755)
    log = stand_in.with_name("cargo.log")
    log.unlink(missing_ok=True)
    env = {**ENV, "PATH": f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"}
    cdk = [MODULES / ".bin" / "cdk", "--no-notices", "synth", "--quiet"]
    run(cdk, cwd=FOLDER / "cdk" / BUILT / "cdk", env=env)
    (build,) = (line for line in log.read_text().splitlines() if line.startswith("lambda build"))
    assert build.endswith(f" --release --arm64 --bin {BUILT} --flatten {BUILT}"), build


def main():
    new = built("cargo-sqs-once")
    installed(TEMPLATE / "cdk", FOLDER)
    shutil.rmtree(FOLDER / "cdk", ignore_errors=True)
    generate(new, FOLDER / "cdk", "cdk")
    check_package()
    synthesise()
    examine(new)
    same("CDK", {name: output(name) for name in VARIANTS}, BY_DESIGN)
    same_bus("CDK", buses)
    check_other()
    check_build()


if __name__ == "__main__":
    main()
