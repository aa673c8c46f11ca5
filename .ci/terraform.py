"""Creates every variant of a project that Terraform deploys, and checks its configuration without AWS and without the
provider: by HashiCorp's parser, by the provider's schema, with the doctor, and against SAM."""

import itertools
import json
import math
import re
import shutil
import subprocess
import tarfile
from types import SimpleNamespace

from local import OUT, ROOT, built
from new import ENV, MADE_OF_OTHER, OTHER_PROJECT, VARIANTS, contents, deployed, generate, same, same_bus
from npm import installed, packed
from template import check_silence

MODULE = ROOT / "deploy" / "terraform"
PROJECTS = OUT / "terraform"
# Outside PROJECTS, which each run deletes.
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
# Arguments of the module that are not the defaults.
OTHER = """timeout_seconds = 100
  memory_mb = 512
  batch_size = 7
  maximum_concurrency = 3
  environment = { POWERTOOLS_METRICS_NAMESPACE = "Shop" }
"""
# Arguments for Terraform, not for the provider.
META = {"count", "for_each", "depends_on", "lifecycle", "provider"}
# The lines of the doctor's that differ from SAM's on purpose, or because the doctor reads less of an expression.
BY_DESIGN = (
    r"an alarm watches .*\"(Duplicates|Terminal)\"",
    r"an alarm watches computed",
    r"function: (DATABASE_URL|SQS_ONCE_SERVICE) = ",
)


def run(command, **options):
    return subprocess.run(list(map(str, command)), check=True, text=True, env=ENV, **options)


def parse(folders):
    """The blocks of each folder's files, by folder, as JSON in which expressions are text."""
    modules = installed(PARSER, PACKAGES / "parser")
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
    # The types of awscc are in a package of 100 MB only. `main` compares its resources with CloudFormation's.
    known, faults, checked = schemas({kind for kind in kinds if not kind.startswith("awscc_")}), [], 0
    for folder, blocks in configurations.items():
        place = folder.relative_to(ROOT)
        declared = {"data." * (group == "data") + kind: named for group in ("resource", "data") for kind, named in blocks.get(group, {}).items()}
        for kind in declared.keys() & known.keys():
            for name, bodies in declared[kind].items():
                checked += len(bodies)
                faults += [f"{place}: {kind}.{name}: {fault}" for body in bodies for fault in known[kind].faults(body)]
        locals_ = {name for one in blocks.get("locals", []) for name in one}
        called = {}
        for name, bodies in blocks.get("module", {}).items():
            # `main` has compared the project's module with this one.
            called[name] = configurations[MODULE]
            variables, given = called[name]["variable"], set(bodies[0]) - META - {"source"}
            faults += [f"{place}: module.{name} has no variable {it}" for it in given - set(variables)]
            faults += [f"{place}: module.{name} needs {it}" for it, [its] in variables.items() if "default" not in its and it not in given]
        # Expressions are texts.
        text = json.dumps(blocks)
        for kind, name, attribute in re.findall(r"(?<![\w.])((?:data\.)?(?:aws|awscc|archive)_\w+)\.(\w+)(?:\[[^\]]*\])?(?:\.(\w+))?", text):
            if name not in declared.get(kind, {}):
                faults.append(f"{place}: there is no {kind}.{name}")
            elif attribute and kind in known and attribute not in known[kind].attributes:
                faults.append(f"{place}: {kind} has no attribute {attribute}")
        faults += [f"{place}: there is no var.{it}" for it in set(re.findall(r"\bvar\.(\w+)", text)) - set(blocks.get("variable", {}))]
        faults += [f"{place}: there is no local.{it}" for it in set(re.findall(r"\blocal\.(\w+)", text)) - locals_]
        for name, output in re.findall(r"\bmodule\.(\w+)\.(\w+)", text):
            if output not in called.get(name, {}).get("output", {}):
                faults.append(f"{place}: there is no module.{name}.{output}")
    assert not faults, "\n".join(faults)
    print(f"{checked} resources and data sources of {len(known)} types: every argument, block and reference is the provider's")


def buses(resources):
    """The properties of an event bus and its subscriber. `awscc` names them after those of CloudFormation."""
    for kind in "awscc_eventsv2_event_bus", "awscc_eventsv2_subscriber":
        ((body,),) = resources[kind].values()
        yield {name: value for name, value in body.items() if name not in META}


def check_other(folder):
    """Checks that the alarms follow other settings, which the folder's configuration is given."""
    main = folder / "main.tf"
    main.write_text(main.read_text().replace('module "consumer" {', f'module "consumer" {{\n  {OTHER}'))
    other = deployed(folder)
    assert MADE_OF_OTHER <= other, MADE_OF_OTHER - other
    assert '"sqs-once"' not in (MODULE / "dashboard.tf").read_text(), "the dashboard ignores the metrics' namespace"


def check_store_errors(module):
    """Checks the alarm on errors of the store with the shortest and the longest visibility timeout, and some between."""
    (alarm,) = module["resource"]["aws_cloudwatch_metric_alarm"]["store_errors"]
    for invisible, receives in itertools.product((6, 181, 601, 5700), (1, 2, 5, 20)):
        local = SimpleNamespace(visibility_timeout_seconds=invisible, max_receive_count=receives)
        # The expressions are also Python's.
        names = {"local": local, "min": min, "max": max, "ceil": math.ceil}
        needed, periods = (eval(str(alarm[it]).strip("${}"), names) for it in ("datapoints_to_alarm", "evaluation_periods"))
        check_silence(needed, alarm["period"] * periods, receives, invisible)


def check_names(module):
    """Checks that SQS accepts the longest name."""
    (name,), (queue,) = module["variable"]["name"], module["resource"]["aws_sqs_queue"]["dead_letters"]
    longest = int(re.search(r"\{1,(\d+)\}", name["validation"][0]["condition"])[1])
    full = queue["name"].replace("${var.name}", "a" * longest).replace("${local.suffix}", ".fifo")
    assert len(full) <= 80, f"{full} has {len(full)} characters"


def doctor(new):
    for name in VARIANTS:
        examined = run([new, "doctor", "terraform"], cwd=PROJECTS / name, stdout=subprocess.PIPE).stdout
        assert examined == "nothing found\n", f"{name}: {examined}"
    print(f"the doctor examined {len(VARIANTS)} configurations: nothing found")


def main():
    shutil.rmtree(PROJECTS, ignore_errors=True)
    new = built("cargo-sqs-once")
    generate(new, PROJECTS, "terraform")
    folders = {name: PROJECTS / name / "terraform" for name in VARIANTS}
    for name, folder in folders.items():
        assert contents(folder / "consumer") == contents(MODULE), f"{name} has another module"
    configurations = parse([MODULE, *folders.values()])
    check_provider(configurations)
    check_store_errors(configurations[MODULE])
    check_names(configurations[MODULE])
    same("Terraform", folders, BY_DESIGN)
    same_bus("Terraform", lambda name: buses(configurations[folders[name]]["resource"]))
    doctor(new)
    check_other(folders[OTHER_PROJECT])


if __name__ == "__main__":
    main()
