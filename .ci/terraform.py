"""Creates every variant of a project that Terraform deploys, and checks its configuration without AWS and without the
provider: by HashiCorp's parser, by the provider's schema, with the doctor and with checkov, and against SAM and CDK."""

import json
import os
import re
import shutil
import subprocess
import tarfile

from cdk import OTHER, form
from deployments import OTHER_ARCHITECTURE, OTHER_NAME, OTHER_PROJECTS, OTHER_SETTINGS, intended, of_cloudformation, of_terraform
from local import OUT, ROOT, built
from new import EFFECTS, ENV, QUEUES, SOURCES, TEMPLATE, VARIANTS, contents
from npm import packed
from template import transform

MODULE = ROOT / "deploy" / "terraform"
FOLDER = OUT / "terraform"
PROJECTS = FOLDER / "projects"
# Outside FOLDER, which each run deletes.
PACKAGES = OUT / "terraform-packages"
PARSER = ROOT / ".ci" / "terraform"
PARSE = """
const { parse } = require("@cdktn/hcl2json");
const { readFileSync } = require("node:fs");
const all = process.argv.slice(1).map(async (file) => [file, JSON.parse(JSON.stringify(await parse(file, readFileSync(file, "utf8"))))]);
Promise.all(all).then((parsed) => { process.stdout.write(JSON.stringify(Object.fromEntries(parsed)), () => process.exit(0)); });
"""
# The generated types of a provider, whose version is in their text: aws 6.66.0, archive 2.8.0.
PROVIDERS = {
    "aws": (
        "@cdktn/provider-aws@25.7.0",
        "sha512-E/nhu0yVZE4mXMgIPuI8tEFt1BExLkA7ARjihdG+/HmfDfzLr+OEF3dkFRvI6glRt30lrrBWQLwXqCJBxcmyUg==",
    ),
    "archive": (
        "@cdktn/provider-archive@14.0.1",
        "sha512-JqpyFUXXFn8GZcsXuxuQbs26WUKlheVhQXy+w9yk9QXn0mUnsohQhmkbFvn8WWYm2bsMJX4Oh9iRwfe68oATNA==",
    ),
}
# The Python types of literals, by the provider's types.
LITERALS = {"string": str, "number": (int, float), "boolean": bool}
# Arguments for Terraform, not for the provider.
META = {"count", "for_each", "depends_on", "lifecycle", "provider"}
# The files that differ between tools.
DEPLOYMENT = ("terraform/", "template.yaml", "samconfig.toml", "README.md", ".gitignore", ".github/workflows/ci.yml")
# The values of variables, by SAM's parameter and by Terraform's variable: for all postgres projects, and those that may be
# left out.
REQUIRED = {
    "DatabaseHost": ("database_host", "db.example.com"),
    "DatabaseName": ("database_name", "orders"),
    "DatabaseUser": ("database_user", "payments"),
    "DatabaseResourceId": ("database_resource_id", "db-ABC"),
}
NETWORK = {"SubnetIds": ("subnet_ids", "subnet-1,subnet-2"), "SecurityGroupIds": ("security_group_ids", "sg-1")}
ALARMS = {"AlarmTopicArn": ("alarm_topic_arns", "arn:aws:sns:us-east-1:123456789012:alarms")}
LISTS = {"subnet_ids", "security_group_ids", "alarm_topic_arns"}
# Where the deployments differ on purpose.
BY_DESIGN = {
    r"Alarm of [\w ]+\.AlarmDescription: ": "the module is for any message, so its texts do not speak of orders",
    r"(Function|LayerVersion)\.(Code|Content|Filename|SourceCodeHash): ": "each tool uploads the zip in its own way",
    r"Function\.Tags: ": "SAM tags what it creates",
    r"LayerVersion\.LayerName: ": "SAM uses the logical id, which is not unique in a region",
}
# What checkov asks for, and the deployments do not have.
UNWANTED = {
    "CKV_AWS_115": "reserved concurrency uses up deliveries; the mapping's maximum concurrency limits the function instead",
    "CKV_AWS_116": "this dead-letter queue is for asynchronous calls; the mapping's source queue has one",
    "CKV_AWS_119": "a customer's KMS key costs money and needs permissions; AWS's own key encrypts the tables",
    "CKV_AWS_158": "as above; CloudWatch encrypts the logs with its own key, and they contain no bodies",
    "CKV_AWS_173": "as above; the environment contains no secrets",
    "CKV_AWS_272": "code signing needs the customer's signing profile",
    "CKV_AWS_338": "logs for a year cost money; 30 days are longer than duplicates are recognised",
}


def run(command, **options):
    return subprocess.run(list(map(str, command)), check=True, text=True, env=ENV, **options)


def generate(new):
    """Creates all variants, also with cargo-lambda. Only the deployment may differ from that of SAM."""
    for name, (queue, source, effect) in VARIANTS.items():
        options = [*QUEUES[queue], *SOURCES[source], *EFFECTS[effect], "--sqs-once", ROOT]
        for iac in "terraform", "sam":
            (PROJECTS / iac).mkdir(parents=True, exist_ok=True)
            run([new, "new", name, *options, "--iac", iac], cwd=PROJECTS / iac, stdout=subprocess.DEVNULL)
        made, sam = (contents(PROJECTS / iac / name) for iac in ("terraform", "sam"))
        other = {path for path in made.keys() | sam.keys() if made.get(path) != sam.get(path)}
        other = sorted(path for path in other if not path.startswith(DEPLOYMENT))
        assert not other, f"{name}: Terraform and SAM deploy other code: {other}"
        variables = {"queue": queue, "source": source, "effect": effect, "iac": "terraform", "sqs_once": ROOT}
        render = [f"--render-var={variable}={value}" for variable, value in variables.items()]
        (PROJECTS / "by-cargo-lambda").mkdir(exist_ok=True)
        command = ["cargo", "lambda", "new", name, "--template", TEMPLATE, "--no-interactive", *render]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        run(command, cwd=PROJECTS / "by-cargo-lambda", **quiet)
        by_cargo_lambda = contents(PROJECTS / "by-cargo-lambda" / name)
        assert made == by_cargo_lambda, f"{name}: cargo-lambda makes other files"
        module = PROJECTS / "terraform" / name / "terraform" / "consumer"
        assert contents(module) == contents(MODULE), f"{name} has another module"


def parse(folders):
    """The blocks of each folder's files, by folder, as JSON in which expressions are text."""
    modules, lock = PACKAGES / "parser", (PARSER / "package-lock.json").read_bytes()
    done = modules / "done"
    if not done.exists() or done.read_bytes() != lock:
        shutil.rmtree(modules, ignore_errors=True)
        shutil.copytree(PARSER, modules)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=modules, check=True)
        done.write_bytes(lock)
    files = [file for folder in folders for file in sorted(folder.glob("*.tf"))]
    parsed = json.loads(run(["node", "-e", PARSE, *files], cwd=modules, stdout=subprocess.PIPE).stdout)
    configurations = {folder: {} for folder in folders}
    for file in files:
        merge(configurations[file.parent], parsed[str(file)])
    return configurations


def merge(into, blocks):
    for name, value in blocks.items():
        if isinstance(value, dict):
            merge(into.setdefault(name, {}), value)
        else:
            into.setdefault(name, []).extend(value)


class Schema:
    """What a provider's generated types say of a resource type or data source."""

    def __init__(self, script, types):
        script = script.partition("//# sourceMappingURL")[0]
        self.arguments = {}
        """The arguments of each kind of block: the kind of a nested block or None, and the type. Its own block is ""."""
        for function in re.split(r"^(?=function |    \w+\()", script, flags=re.MULTILINE):
            if name := re.match(r"function (\w+)ToHclTerraform\(|    synthesizeHclAttributes\(", function):
                found = re.findall(r'(\w+): \{\s+value: (.*),\s+isBlock: (\w+),\s+type: "\w+",\s+storageClassType: "(\w+)"', function)
                self.arguments[name[1] or ""] = {
                    argument: (re.search(r"(?<!\.)\b(\w+)ToHclTerraform", value)[1] if is_block == "true" else None, kind)
                    for argument, value, is_block, kind in found
                }
        self.required = {}
        for name, extends, body in re.findall(r"^export interface (\w+)([^{]*)\{(.*?)^\}", types, re.DOTALL | re.MULTILINE):
            block = "" if "TerraformMetaArguments" in extends else name[0].lower() + name[1:]
            # Each argument has a comment with a link to its description.
            comments = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s+readonly \w+(\??):", body, re.DOTALL)
            self.required[block] = {re.search(r"#(\w+) ", text)[1] for text, optional in comments if not optional}
        own = re.split(r"^class \w+ extends cdktn\.Terraform(?:Resource|DataSource)", script, flags=re.MULTILINE)[1]
        self.attributes = set(re.findall(r"get\w+Attribute\('(\w+)'\)", own)) | set(self.arguments[""])
        """What expressions can refer to."""

    def faults(self, body, block=""):
        """What the provider would refuse of a block."""
        arguments = self.arguments[block]
        body = {name: value for name, value in body.items() if name not in META}
        for name, blocks in body.pop("dynamic", {}).items():
            body[name] = [content for it in blocks for content in it["content"]]
        yield from (f"{name} is missing" for name in sorted(self.required[block] - set(body)))
        for name, value in body.items():
            if name not in arguments:
                yield f"there is no {name}"
                continue
            nested, kind = arguments[name]
            is_blocks = isinstance(value, list) and all(isinstance(it, dict) for it in value) and value != []
            if bool(nested) != is_blocks:
                yield f"{name} is {'a block' if nested else 'not a block'}"
            elif nested:
                yield from (f"{name}: {fault}" for it in value for fault in self.faults(it, nested))
            elif kind in LITERALS and value is not None and "${" not in str(value) and not isinstance(value, LITERALS[kind]):
                yield f"{name} is a {kind}"


def schemas(kinds):
    """The schemas of resource types and of data sources, whose names here begin with `data.`."""
    found = {}
    for provider, (package, integrity) in PROVIDERS.items():
        folders = {}
        for kind in kinds:
            of_data, name = kind.startswith("data."), kind.removeprefix("data.")
            if name.startswith(f"{provider}_"):
                # Only the folders of data sources may have the provider's name.
                short = name.removeprefix(f"{provider}_")
                for folder in (f"data-{name}", f"data-{short}") if of_data else (short,):
                    folders[folder.replace("_", "-")] = kind
        texts = {}
        with tarfile.open(packed(package, integrity, PACKAGES)) as archive:
            for member in archive:
                folder, _, file = member.name.removeprefix("package/lib/").partition("/")
                if folder in folders and file in ("index.js", "index.d.ts"):
                    texts.setdefault(folders[folder], {})[file] = archive.extractfile(member).read().decode()
        found |= {kind: Schema(files["index.js"], files["index.d.ts"]) for kind, files in texts.items()}
    assert set(kinds) == set(found), f"the providers have no {set(kinds) - set(found)}"
    return found


def check_provider(configurations):
    """Checks resources, data sources and references against the provider, and references to variables and modules."""
    kinds = set()
    for blocks in configurations.values():
        kinds |= set(blocks.get("resource", {})) | {f"data.{kind}" for kind in blocks.get("data", {})}
    known, faults, checked = schemas(kinds), [], 0
    for folder, blocks in configurations.items():
        place = folder.relative_to(ROOT)
        declared = {"data." * (group == "data") + kind: named for group in ("resource", "data") for kind, named in blocks.get(group, {}).items()}
        for kind, named in declared.items():
            for name, bodies in named.items():
                checked += len(bodies)
                faults += [f"{place}: {kind}.{name}: {fault}" for body in bodies for fault in known[kind].faults(body)]
        locals_ = {name for one in blocks.get("locals", []) for name in one}
        called = {}
        for name, bodies in blocks.get("module", {}).items():
            # `generate` has compared the project's module with this one.
            called[name] = configurations[MODULE]
            variables, given = called[name]["variable"], set(bodies[0]) - META - {"source"}
            faults += [f"{place}: module.{name} has no variable {it}" for it in given - set(variables)]
            faults += [f"{place}: module.{name} needs {it}" for it, [its] in variables.items() if "default" not in its and it not in given]
        # Expressions are texts.
        text = json.dumps(blocks)
        for kind, name, attribute in re.findall(r"(?<![\w.])((?:data\.)?(?:aws|archive)_\w+)\.(\w+)(?:\[[^\]]*\])?(?:\.(\w+))?", text):
            if name not in declared.get(kind, {}):
                faults.append(f"{place}: there is no {kind}.{name}")
            elif attribute and attribute not in known[kind].attributes:
                faults.append(f"{place}: {kind} has no attribute {attribute}")
        faults += [f"{place}: there is no var.{it}" for it in set(re.findall(r"\bvar\.(\w+)", text)) - set(blocks.get("variable", {}))]
        faults += [f"{place}: there is no local.{it}" for it in set(re.findall(r"\blocal\.(\w+)", text)) - locals_]
        for name, output in re.findall(r"\bmodule\.(\w+)\.(\w+)", text):
            if output not in called.get(name, {}).get("output", {}):
                faults.append(f"{place}: there is no module.{name}.{output}")
    assert not faults, "\n".join(faults)
    print(f"{checked} resources and data sources of {len(kinds)} types: every argument, block and reference is the provider's")


def retained(blocks):
    """The resources that Terraform refuses to destroy."""
    for kind, named in blocks.get("resource", {}).items():
        for name, [body] in named.items():
            if any(lifecycle.get("prevent_destroy") is True for lifecycle in body.get("lifecycle", [])):
                yield f"{kind}.{name}"


def evaluated(folder, values):
    """The plan-shaped JSON of a configuration with these values of variables."""
    values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    (folder / "check.auto.tfvars").write_text(values)
    plan = run([built("examples/terraform_plan"), folder], stdout=subprocess.PIPE).stdout
    (folder / "check.auto.tfvars").unlink()
    return json.loads(plan)


def compare(name, configurations):
    """Compares a variant with SAM's property by property, with and without the parameters that may be left out. Returns the
    patterns of the differences by design."""
    template = transform(PROJECTS / "sam" / name / "template.yaml")
    folder = PROJECTS / "terraform" / name / "terraform"
    kept = {it for module in (folder, MODULE) for it in retained(configurations[module])}
    is_postgres = name.endswith("postgres")
    required = REQUIRED if is_postgres else {}
    seen = set()
    for parameters in required, {**required, **ALARMS, **(NETWORK if is_postgres else {})}:
        values = {variable: value.split(",") if variable in LISTS else value for variable, value in parameters.values()}
        expected = of_cloudformation(template, name, {parameter: value for parameter, (_, value) in parameters.items()})
        outputs = {"".join(map(str.capitalize, it.split("_"))) for it in configurations[folder]["output"]}
        assert outputs == set(expected.pop("Outputs")), f"{name}: {outputs}"
        found = of_terraform(evaluated(folder, values), kept)
        assert not found.pop("Outputs")
        seen |= intended(name, expected, found, BY_DESIGN)
    if name in OTHER_PROJECTS:
        cdk = {**form(name, OTHER), "Outputs": {}}
        seen |= intended(f"{name}, compared with CDK", cdk, of_terraform(with_others(folder), kept), BY_DESIGN)
    return seen


def with_others(folder):
    """The plan-shaped JSON of a configuration with other settings."""
    other = FOLDER / "other" / folder.parent.name / "terraform"
    shutil.copytree(folder, other)
    main, module = other / "main.tf", 'module "consumer" {\n'
    arguments = "".join(f"  {argument}\n" for _, argument, _ in OTHER_SETTINGS)
    main.write_text(main.read_text().replace(module, module + arguments))
    return evaluated(other, {"name": OTHER_NAME, "architecture": OTHER_ARCHITECTURE})


def doctor(new):
    for name in VARIANTS:
        examined = run([new, "doctor", "terraform"], cwd=PROJECTS / "terraform" / name, stdout=subprocess.PIPE).stdout
        assert examined == "nothing found\n", f"{name}: {examined}"
    print(f"the doctor examined {len(VARIANTS)} configurations: nothing found")


def checkov():
    """Runs checkov over all variants together. It must find what is listed here as unwanted, and nothing else."""
    options = ["--directory", PROJECTS / "terraform", "--framework", "terraform", "--skip-download", "--quiet", "--output", "json"]
    # Its status only says that it has found something.
    command = list(map(str, [installed_checkov(), *options]))
    results = json.loads(subprocess.run(command, env=ENV, stdout=subprocess.PIPE, text=True).stdout)
    failed = {result["check_id"]: f"{result['check_name']}: {result['resource']}" for result in results["results"]["failed_checks"]}
    assert set(failed) == set(UNWANTED), {it: failed.get(it, "passes") for it in set(failed) ^ set(UNWANTED)}
    print(f"checkov: {results['summary']['passed']} checks passed; {len(UNWANTED)} kinds of findings are unwanted")


def installed_checkov():
    """Installs checkov into an environment of its own if it is missing. Returns its path."""
    venv, pinned = OUT / "checkov", ROOT / ".ci" / "checkov.txt"
    done = venv / "checkov.txt"
    if not done.exists() or done.read_bytes() != pinned.read_bytes():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run(["uv", "venv", "--quiet", venv], check=True)
        install = ["uv", "pip", "install", "--quiet", "--require-hashes", "--requirement", pinned]
        subprocess.run(install, env={**os.environ, "VIRTUAL_ENV": str(venv)}, check=True)
        shutil.copy(pinned, done)
    return venv / "bin" / "checkov"


def formatted():
    if shutil.which("terraform") is None:
        print("NOT CHECKED: terraform fmt, because there is no terraform on the PATH")
        return
    run(["terraform", "fmt", "-check", "-recursive", "-diff", PROJECTS / "terraform"])
    print("terraform fmt has nothing to change")


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    new = built("cargo-sqs-once")
    generate(new)
    formatted()
    configurations = parse([MODULE, *(PROJECTS / "terraform" / name / "terraform" for name in VARIANTS)])
    check_provider(configurations)
    seen = set().union(*(compare(name, configurations) for name in VARIANTS))
    assert seen == set(BY_DESIGN), f"no longer different: {set(BY_DESIGN) - seen}"
    print(f"{len(VARIANTS)} projects have the properties of the SAM template, except {len(BY_DESIGN)} kinds by design")
    print(f"{len(OTHER_PROJECTS)} projects with other settings have those of CDK's construct")
    doctor(new)
    checkov()


if __name__ == "__main__":
    main()
