"""Creates a project of every variant with `cargo sqs-once new`, and runs its user commands: format, doctor, transform, and for
some, with which each two choices come together, lint, test and invoke. `cargo lambda new` must create the same files from the
same template."""

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib

from local import AWS_ENV, LOOPBACK_ONLY_ENV, OUT, ROOT, TARGET, built
from shared import add_shared
from template import arn, check_kept, check_own_metrics, granted, of_type, only, polled, transform

FOLDER = OUT / "new"
TEMPLATE = ROOT / "crates" / "cargo-sqs-once" / "template"
# Each option of `cargo sqs-once new`, with its name in the template.
QUEUES = {"standard": [], "fifo": ["--fifo"]}
SOURCES = {"sqs": [], "sns": ["--source", "sns"], "bus": ["--source", "bus"]}
EFFECTS = {"elsewhere": [], "dynamodb": ["--effect", "dynamodb"], "postgres": ["--effect", "postgres"]}
# For each two choices of different options, one of these has both.
BUILT = [
    "new-standard-sqs-elsewhere",
    "new-fifo-sns-elsewhere",
    "new-standard-bus-elsewhere",
    "new-standard-sqs-dynamodb",
    "new-fifo-sns-dynamodb",
    "new-fifo-bus-dynamodb",
    "new-standard-sns-postgres",
    "new-fifo-sqs-postgres",
    "new-standard-bus-postgres",
]
# All, except that those are enough for the event bus.
VARIANTS = {
    name: choices
    for choices in itertools.product(QUEUES, SOURCES, EFFECTS)
    if (name := f"new-{'-'.join(choices)}") in BUILT or "bus" not in choices
}
# CDK and Terraform also deploy this project with other settings, and this is what the doctor reads of them.
OTHER_PROJECT = "new-standard-sqs-elsewhere"
MADE_OF_OTHER = {
    "function: timeout 100s",
    "function: memory 512",
    "mapping: 7 a batch",
    "mapping: at most 3",
    "the queue: visibility 601s",
    'an alarm watches "Shop" "StoreErrors" of nothing',
}
ENV = {**os.environ, **LOOPBACK_ONLY_ENV}
DATABASE_USER = (
    "arn:${AWS::Partition}:rds-db:${AWS::Region}:${AWS::AccountId}:dbuser:${DatabaseResourceId}/${DatabaseUser}"
)
# The projects share this workspace's build folder, but have their own output and local database.
PROJECT_ENV = {"CARGO_BUILD_BUILD_DIR": str(TARGET), "CARGO_TARGET_DIR": str(FOLDER / "target")}


def run(command, cwd=FOLDER, env=None, **options):
    print("$", *command, flush=True)
    project = PROJECT_ENV if cwd != ROOT else {}
    return subprocess.run(command, cwd=cwd, env={**ENV, **project, **(env or {})}, check=True, **options)


def packaged():
    """Checks that the published package contains the whole template, because cargo excludes folders with a manifest."""
    listed = ["cargo", "package", "--list", "--allow-dirty", "--package", "cargo-sqs-once"]
    files = run(listed, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    missing = {f"template/{path}" for path in contents(TEMPLATE)} - set(files)
    assert not missing, f"not in the package: {missing}"


def generate(new, folder, iac):
    """Creates all variants in a folder, and again with cargo-lambda, which must create the same files."""
    again = folder / "by-cargo-lambda"
    again.mkdir(parents=True)
    for name, (queue, source, effect) in VARIANTS.items():
        options = [*QUEUES[queue], *SOURCES[source], *EFFECTS[effect], "--iac", iac]
        made = run([new, "new", name, *options, "--format", "json"], cwd=folder, stdout=subprocess.PIPE)
        variables = {"queue": queue, "source": source, "effect": effect, "iac": iac, "sqs_once": str(ROOT)}
        render = [f"--render-var={name}={value}" for name, value in variables.items()]
        lambda_new = ["cargo", "lambda", "new", name, "--template", str(TEMPLATE), "--no-interactive", *render]
        run(lambda_new, cwd=again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        files = contents(folder / name)
        assert files == contents(again / name), f"{name}: cargo-lambda makes other files"
        assert sorted(files) == sorted(json.loads(made.stdout)["files"]), f"{name}: {sorted(files)}"


def workspace():
    """Makes the projects members of one workspace, with this repository's profile and lock file."""
    profile = (ROOT / "Cargo.toml").read_text().partition("[profile.dev]")[2]
    (FOLDER / "Cargo.toml").write_text(
        f'[workspace]\nresolver = "3"\nmembers = ["new-*"]\n\n[profile.dev]{profile}'
    )
    shutil.copy(ROOT / "Cargo.lock", FOLDER)


def deployed(source):
    """What a template or a folder of Terraform's deploys, in lines without names, as the doctor reads it."""
    told = run([built("examples/deployment"), source], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return set(told.stdout.splitlines())


def same(iac, sources, by_design):
    """Checks that each variant's source deploys what its SAM template does. Every difference begins with one of these patterns,
    each of which is found."""
    seen = set()
    for name in VARIANTS:
        for line in sorted(deployed(FOLDER / name / "template.yaml") ^ deployed(sources[name])):
            matching = {pattern for pattern in by_design if re.match(pattern, line)}
            assert matching, f"{name}: SAM and {iac} differ in: {line}"
            seen |= matching
    assert seen == set(by_design), f"no longer different: {set(by_design) - seen}"
    print(f"{len(VARIANTS)} projects deploy by {iac} what they deploy by SAM, except {len(by_design)} kinds of lines")


def written(value):
    """What a property says, whatever the case of its names, and without references."""
    if isinstance(value, dict) and not {"Ref", "Fn::GetAtt"} & value.keys():
        return {name.replace("_", "").lower(): written(it) for name, it in value.items()}
    return "a reference" if isinstance(value, dict) or "${" in str(value) else value


def same_bus(iac, buses):
    """Checks that the event buses and subscribers of variants have the properties of those in their SAM templates."""
    for name, (_, source, _) in VARIANTS.items():
        if source == "bus":
            resources = json.loads((FOLDER / f"{name}.transformed.json").read_text())["Resources"]
            for sam, other in zip((resources[it]["Properties"] for it in ("Bus", "Subscriber")), buses(name), strict=True):
                # CDK knows the stack's name.
                sam, other = ({**written(it), "name": ""} for it in (sam, other))
                assert sam == other, f"{name}: SAM and {iac} differ in {sam} and {other}"


def share(names):
    """Makes projects reuse this workspace's builds. Each project chooses the features of our own packages."""
    for name in names:
        manifest = FOLDER / name / "Cargo.toml"
        text = manifest.read_text()
        manifest.write_text(text.replace("\n[dependencies]\n", '\n[dependencies]\nshared = { path = "../shared" }\n', 1))


def contents(folder):
    """The bytes of every file, by path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@contextlib.contextmanager
def postgres():
    """Starts a PostgreSQL server, yields its URL, and stops it afterwards."""
    with subprocess.Popen([built("postgres-for-tests")], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        yield child.stdout.readline().strip()
        child.stdin.close()


def test(database):
    """Tests each effect separately, because a whole workspace would unify the features of its projects."""
    for effect in EFFECTS:
        packages = [f"--package={name}" for name in BUILT if VARIANTS[name][2] == effect]
        tests = run(["cargo", "test", "--quiet", *packages], env={"TEST_DATABASE_URL": database}, stdout=subprocess.PIPE)
        results = [line for line in tests.stdout.decode().splitlines() if line.startswith("test result: ok.")]
        print(*results, sep="\n", flush=True)
        assert len(results) == len(packages), f"{effect}: not every project has run its tests"
        assert all(int(result.split()[3]) >= 4 for result in results), f"{effect}: a project has hardly any tests"


def invoke(new, name, outcomes, deployment):
    """Invokes the real binary with the sample event twice, and checks the outcomes of its three records each time."""
    event = [str(FOLDER / name / "events" / "orders.json"), "--template", str(deployment)]
    for run_outcomes, reset in (outcomes[0], ["--reset"]), (outcomes[1], []):
        invoked = run([new, "invoke", *event, *reset, "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert json.loads(invoked.stdout) == {"batchItemFailures": []}, invoked.stdout
        records = json.loads(invoked.stderr.decode().splitlines()[-1])["records"]
        assert [record["outcome"] for record in records] == run_outcomes, records


def check(name, template):
    """Checks what the doctor's rules leave out: the alarms, the topic, and that the role allows only these actions."""
    queue, source, effect = VARIANTS[name]
    expected = {"Processed", "Failed", "Terminal", "Duplicates", "RecordsReceived", "PayloadMismatch", "StoreErrors"}
    expected |= {"BreakerOpened"}
    # Without leases, none can be lost.
    assert check_own_metrics(template) == expected | ({"LeaseLost"} if effect == "elsewhere" else set())
    check_kept(template)
    if source == "bus":
        check_bus(template["Resources"], queue == "fifo")
    assert bool(of_type(template, "SNS::Topic")) == (source == "sns")
    for subscription in of_type(template, "SNS::Subscription").values():
        assert not subscription["RawMessageDelivery"], "the function opens the envelope"
    if effect == "postgres":
        function = only(template, "Lambda::Function")[1]
        url = function["Environment"]["Variables"]["DATABASE_URL"]["Fn::Sub"]
        assert url.startswith("postgresql://${DatabaseUser}@${DatabaseHost}/"), "a password in the environment"
        assert url.endswith("?auth=iam&sslrootcert=/opt/global-bundle.pem")
    # Only deployments with a VPC get the permissions to join it.
    policies = only(template, "IAM::Role")[1]["Policies"]
    assert [policy.get("Fn::If", [None])[0] for policy in policies[1:]] == (["HasVpc"] if effect == "postgres" else [])
    for policy in policies[1:]:
        allowed, denied = policy["Fn::If"][1]["PolicyDocument"]["Statement"]
        assert denied["Effect"] == "Deny" and denied["Action"] == allowed["Action"]
        assert denied["Condition"] == {"Null": {"lambda:SourceFunctionArn": "false"}}
    del policies[1:]
    claims = {"dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:UpdateItem", "dynamodb:BatchGetItem"}
    assert granted(template) == {
        **{
            "elsewhere": {arn("IdempotencyTable"): claims},
            "dynamodb": {
                arn("IdempotencyTable"): {"dynamodb:UpdateItem", "dynamodb:BatchGetItem"},
                arn("OrdersTable"): {"dynamodb:PutItem"},
                arn("StockTable"): {"dynamodb:UpdateItem"},
            },
            "postgres": {json.dumps({"Fn::Sub": DATABASE_USER}): {"rds-db:connect"}},
        }[effect],
        '"*"': {"xray:PutTraceSegments", "xray:PutTelemetryRecords"},
        **polled(template),
    }, granted(template)


def check_bus(resources, is_fifo):
    """Checks the resources of the event bus, and removes those that other checks would take for the function's."""
    queues = [{"Fn::GetAtt": [name, "Arn"]} for name in ("Queue", "UndeliveredEvents")]
    (policy,) = resources.pop("SubscriberRole")["Properties"]["Policies"]
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement == {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": queues}
    undelivered = resources.pop("UndeliveredEvents")["Properties"]
    name = {"Fn::GetAtt": ["UndeliveredEvents", "QueueName"]}
    assert resources["UndeliveredEventsAlarm"]["Properties"]["Dimensions"] == [{"Name": "QueueName", "Value": name}]
    subscriber = resources["Subscriber"]["Properties"]
    assert (subscriber.get("Type") == "FIFO") == is_fifo == undelivered.get("FifoQueue", False)
    assert subscriber["Transformer"] == {"Type": "WITH_METADATA"}, "the function opens the envelope"


def templates(new):
    """Runs the doctor. Transforms every template as AWS does, lints both versions, and checks the result."""
    files = []
    for name in VARIANTS:
        path = FOLDER / name / "template.yaml"
        template = transform(path)
        transformed = FOLDER / f"{name}.transformed.json"
        transformed.write_text(json.dumps(template))
        files += [str(path), str(transformed)]
        check(name, template)
        examined = run([new, "doctor"], cwd=FOLDER / name, capture_output=True, text=True)
        assert examined.stdout == "nothing found\n", examined.stdout
        settings = tomllib.loads((FOLDER / name / "samconfig.toml").read_text())
        assert settings["default"]["global"]["parameters"]["stack_name"] == name
    run(["cfn-lint", "--regions", AWS_ENV["AWS_REGION"], "--", *files])


def normalised(line):
    """A line of output without its times, and without their width."""
    return re.sub(r"\d+\.\d+ (ms|s)\b", "TIME", re.sub(r"\d\d:\d\d:\d\d\.\d+", "AT", re.sub(r" +", " ", line))).strip()


def first_consumer(new):
    """Runs the guide docs/first-consumer.md: the commands of its `console` blocks, whose output must have the lines that
    the guide shows, and its changes. The other blocks need an AWS account, or install what is built already."""
    commands = FOLDER / "bin"
    commands.mkdir()
    (commands / "cargo-sqs-once").symlink_to(new)
    env = {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    folder, ran = FOLDER, 0
    guide = (ROOT / "docs" / "first-consumer.md").read_text()
    for language, block in re.findall(r"^```(\w+)[^\n]*\n(.*?)^```", guide, re.DOTALL | re.MULTILINE):
        if language == "diff":
            run(["git", "apply", "--unidiff-zero", "-"], cwd=folder, input=block, text=True)
        if language == "rust":
            assert block in (folder / "src" / "main.rs").read_text(), f"src/main.rs is not as the guide says:\n{block}"
        if language != "console":
            continue
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = example.splitlines()
            if command.startswith("cd "):
                folder /= command.removeprefix("cd ")
                workspace = FOLDER / "Cargo.toml"
                workspace.write_text(workspace.read_text().replace("new-*", folder.name))
                share([folder.name])
                continue
            told = run(shlex.split(command), cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            # In any order, as tests end.
            lines = {normalised(line) for line in told.stdout.splitlines()}
            missing = [line for line in shown if line not in ("", "…") and normalised(line) not in lines]
            assert not missing, f"{command} does not tell {missing}:\n{told.stdout}"
            ran += 1
    assert ran >= 8, f"only {ran} commands"


def main():
    packaged()
    new = built("cargo-sqs-once")
    shutil.rmtree(FOLDER, ignore_errors=True)
    generate(new, FOLDER, "sam")
    workspace()
    run(["cargo", "fmt", "--all", "--check"])
    share(VARIANTS)
    add_shared(FOLDER, "normal,dev")
    packages = [f"--package={name}" for name in BUILT]
    run(["cargo", "clippy", "--quiet", *packages, "--all-targets", "--", "-D", "warnings"])
    with postgres() as database:
        test(database)
    twice = [["processed", "processed", "duplicate"], ["duplicate"] * 3]
    for name in "new-standard-sqs-elsewhere", "new-fifo-sns-dynamodb":
        invoke(new, name, twice, FOLDER / name / "template.yaml")
    # The same function with the tables and queues of another deployment.
    (FOLDER / "other").mkdir()
    run([new, "new", name, "--fifo", "--source", "sns", "--effect", "dynamodb", "--iac", "terraform", "--format", "json"], cwd=FOLDER / "other", stdout=subprocess.DEVNULL)
    invoke(new, name, twice, FOLDER / "other" / name / "terraform")
    templates(new)
    manifest = FOLDER / "Cargo.toml"
    members = manifest.read_text()
    first_consumer(new)
    # Other checks build these projects too.
    manifest.write_text(members)
    print(f"{len(VARIANTS)} projects: the same by cargo-lambda, formatted, examined by the doctor, their templates transformed")
    print(f"{len(BUILT)} of them: linted, tested")


if __name__ == "__main__":
    main()
