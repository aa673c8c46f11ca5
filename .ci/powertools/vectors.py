"""The ids that Powertools makes from keys, for the tests of the Rust codecs."""

import hashlib
import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer

HERE = Path(__file__).resolve().parent
PREFIX = "orders.app.process_order"
KEYS = [
    ["o-1001"],
    ["42"],
    [42],
    [0],
    [-7],
    [2**53 - 1],
    [True],
    [False],
    ["tenant-7", "o-1001"],
    ["tenant-7", 42],
    ["a", "b", "c", 1, True, "f"],
    ["Zoë, Straße 5"],
    ["Zoë", "Straße 5"],
    ["订单-1001", "日本語"],
    ["🦀", "𝄞"],
    ['say "hi"', "back\\slash/slash"],
    ["tab\tnew\nline\r\b\f", "nul\x00esc\x1bdel\x7f"],
    ["nbsp\u00a0ls\u2028ps\u2029", "bom\ufeff"],
    ["<b>&'+`=", "x"],
    ["<b>&'+`="],
    [" padded ", "x"],
    ["0a1", "1e5x"],
]


def selected(key):
    """An event that contains a key, and the expression that selects the key."""
    names = [f"part{place}" for place in range(len(key))]
    expression = names[0] if len(key) == 1 else f"[{', '.join(names)}]"
    return {"data": dict(zip(names, key)), "expression": expression, "prefix": PREFIX}


class Ids(BasePersistenceLayer):
    """A persistence layer without a table, which shows the ids of the real library."""

    _get_record = _put_record = _update_record = _delete_record = None


def python(cases):
    for case in cases:
        layer = Ids()
        layer.configure(IdempotencyConfig(event_key_jmespath=case["expression"]), key_prefix=case["prefix"])
        yield layer._get_hashed_idempotency_key(case["data"])


def typescript(cases, packages):
    program = packages / "vectors.mjs"
    program.write_text((HERE / "vectors.mjs").read_text())
    answer = subprocess.run(["node", program], input=json.dumps(cases), text=True, capture_output=True, check=True)
    return json.loads(answer.stdout)


def md5(text):
    return f"{PREFIX}#{hashlib.md5(text.encode()).hexdigest()}"


def compact(key):
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def java(key):
    """The same steps as `BasePersistenceStore.generateHash` in powertools-lambda-java, taken from its source."""
    if len(key) == 1:
        return md5(str(key[0]).lower() if isinstance(key[0], bool) else str(key[0]))
    # Jackson writes hexadecimal digits in upper case.
    return md5(re.sub(r"\\u[0-9a-f]{4}", lambda escape: "\\u" + escape[0][2:].upper(), compact(key)))


def dotnet(key):
    """The same steps as `BasePersistenceStore.GenerateHash` in powertools-lambda-dotnet 2 and 3, taken from its source."""
    if len(key) == 1:
        return md5(str(key[0]))

    def escaped(char):
        if " " <= char <= "~" and char not in "\"&'+<>`":
            return char
        units = char.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))

    def one(part):
        if not isinstance(part, str):
            return json.dumps(part)
        short = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\b": r"\b", "\f": r"\f"}
        return '"' + "".join(short.get(char) or escaped(char) for char in part) + '"'

    return md5("[" + ",".join(map(one, key)) + "]")


def make(packages):
    """All vectors. `packages` is a folder in which npm has installed Powertools for TypeScript."""
    cases = [selected(key) for key in KEYS]
    lock = json.loads((packages / "package-lock.json").read_text())
    installed = lock["packages"]["node_modules/@aws-lambda-powertools/idempotency"]["version"]
    columns = zip(KEYS, python(cases), typescript(cases, packages), strict=True)
    return {
        "prefix": PREFIX,
        "made_by": {
            "python": f"aws-lambda-powertools {version('aws-lambda-powertools')}",
            "typescript": f"@aws-lambda-powertools/idempotency {installed}",
            "java": "derived from the source of powertools-lambda-java 2, not run",
            "dotnet": "derived from the source of powertools-lambda-dotnet 3, not run",
        },
        "keys": [
            {"parts": key, "python": of_python, "typescript": of_typescript, "java": java(key), "dotnet": dotnet(key)}
            for key, of_python, of_typescript in columns
        ],
    }


def text(vectors):
    return json.dumps(vectors, indent=1) + "\n"
