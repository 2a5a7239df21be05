"""Holds the JSON documents on standard input, one a line, and the contract's own examples against its schemas.

The schemas are closed first, so that a field which the contract does not name is an error here. Ends with 77 where a
module is missing.
"""

import json
import sys

try:
    import yaml
    from jsonschema import Draft202012Validator
except ImportError as error:
    print("missing:", error)
    sys.exit(77)


def closed(node):
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    rest = {key: closed(value) for key, value in node.items()}
    is_object = node.get("type") == "object" and "properties" in node
    return {**rest, "additionalProperties": False} if is_object else rest


def check(schema, document, where):
    ref = {"$ref": f"#/components/schemas/{schema}", "components": components}
    for error in Draft202012Validator(ref).iter_errors(document):
        sys.exit(print(f"{where}: {error.json_path}: {error.message}") or 1)


def examples(content):
    return content.get("application/json", {}).get("examples", {}).items()


with open(sys.argv[1], encoding="utf-8") as file:
    contract = yaml.safe_load(file)
components = closed(contract["components"])
post = contract["paths"]["/v1/emails"]["post"]

checked = 0
for line in sys.stdin.buffer:
    check("Email", json.loads(line), f"document {checked}")
    checked += 1
for name, example in examples(post["requestBody"]["content"]):
    check("Email", example["value"], f"request example {name}")
    checked += 1
for status, answer in post["responses"].items():
    for name, example in examples(answer.get("content", {})):
        check("Answer", example["value"], f"{status} example {name}")
        checked += 1
print("checked", checked)
