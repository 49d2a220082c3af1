# SPDX-License-Identifier: BSD-2-Clause
# test_workflows.py: the workflows of .github/: they use the keys that SCHEMA knows, with values of
# the right type, and each step is an action or one command that a user can type: a make target of
# this tree, or an installation. SCHEMA is narrower than what a forge takes: a key that is new here
# is added to it after a linter that knows all keys has seen the file (CONTRIBUTING.md).
import copy
import glob
import re

import jsonschema
import pytest
import yaml

from testbed.machine import TOP, path
from tests.commands import run

WORKFLOWS = sorted(glob.glob(".github/workflows/*", root_dir=TOP))
TEXT = {"type": "string", "minLength": 1}


def only(required, **more):
    """An object with these keys and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**required, **more},
    }


def named(schema):
    """An object whose keys are names of the workflow's own."""
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": r"^[A-Za-z_]\w*$"},
        "additionalProperties": schema,
    }


def listed(schema):
    return {"type": "array", "minItems": 1, "items": schema}


COMMAND = {"type": "string", "pattern": r"^(make [a-z-]+|apt-get (update|install -y [a-z -]+))\Z"}
ACTIONS = {
    "actions/checkout": only({}, **{"fetch-depth": {"type": "integer", "minimum": 0}}),
    "actions/upload-artifact": only(
        {"name": TEXT, "path": TEXT, "if-no-files-found": {"enum": ["error", "ignore"]}}
    ),
}
CONDITION = {"enum": ["always()"]}
STEP = {
    "oneOf": [
        only({"run": COMMAND}, **{"if": CONDITION}),
        *(
            only(
                {"uses": {"type": "string", "pattern": rf"^{name}@v\d+\Z"}},
                **{"with": inputs, "if": CONDITION},
            )
            for name, inputs in ACTIONS.items()
        ),
    ]
}
JOB = only(
    {
        "runs-on": {"enum": ["ubuntu-latest"]},
        "container": {"oneOf": [TEXT, only({"image": TEXT}, options=TEXT, volumes=listed(TEXT))]},
        "timeout-minutes": {"type": "integer", "minimum": 1},
        "steps": listed(STEP),
    },
    strategy=only({"matrix": named(listed(TEXT))}, **{"fail-fast": {"type": "boolean"}}),
)
SCHEMA = only(
    {
        "name": TEXT,
        "on": listed({"enum": ["push", "pull_request"]}),
        "permissions": only({"contents": {"enum": ["read"]}}),
        "jobs": named(JOB),
    },
    env=named(TEXT),
)


class Loader(yaml.SafeLoader):
    """YAML 1.2's booleans: "on" is a key of workflows. And no key twice, which YAML forbids."""

    yaml_implicit_resolvers = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:bool"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"found a key twice{node.start_mark}"
        return super().construct_mapping(node, deep)


Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|false)$"), ["t", "f"])


def read(name):
    with open(path(name), encoding="utf-8") as file:
        return yaml.load(file, Loader)


def faults(workflow):
    """What is wrong with it, one line each."""
    for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(workflow):
        yield f"{error.json_path}: {error.message}"
    for name, job in workflow.get("jobs", {}).items():
        rows = set(job.get("strategy", {}).get("matrix", {}))
        used = set(re.findall(r"\$\{\{ *([^}]*?) *\}\}", yaml.dump(job)))
        for word in sorted(used - {f"matrix.{row}" for row in rows}):
            yield f"job {name}: found {word}, wanted a row of its matrix"


def commands(workflow):
    return {
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    }


def test_workflows():
    assert WORKFLOWS, "found no workflow"
    for name in WORKFLOWS:
        found = list(faults(read(name)))
        assert not found, f"{name}: {found}"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_targets(name):
    """make knows each target. It refuses a word that is no target."""
    targets = sorted(
        words[1] for words in map(str.split, commands(read(name))) if words[0] == "make"
    )
    assert targets
    for target in [*targets, "colour"]:
        status, said = run("make", "-n", "-q", "-C", path(), target)
        assert (status == 2 and "no target" in said) == (target == "colour"), said
    return " ".join(targets)


def job(workflow):
    return workflow["jobs"]["check"]


MUTANTS = {
    "unknown key": lambda one: one.update(colour="blue"),
    "unknown key of a job": lambda one: job(one).update(colour="blue"),
    "unknown key of a step": lambda one: job(one)["steps"][0].update(colour="blue"),
    "unknown input": lambda one: job(one)["steps"][-1]["with"].update(colour="blue"),
    "steps are text": lambda one: job(one).update(steps="make short"),
    "minutes are text": lambda one: job(one).update({"timeout-minutes": "180"}),
    "no runner": lambda one: job(one).pop("runs-on"),
    "no steps": lambda one: job(one).update(steps=[]),
    "two things in a step": lambda one: job(one)["steps"][0].update(uses="actions/checkout@v6"),
    "unknown event": lambda one: one["on"].append("pushed"),
    "unknown row of the matrix": lambda one: job(one).update(container="debian:${{ matrix.no }}"),
    "shell in a step": lambda one: job(one)["steps"][0].update(run="make short || true"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_fault_is_seen(mutant):
    workflow = copy.deepcopy(read(".github/workflows/check.yml"))
    MUTANTS[mutant](workflow)
    assert list(faults(workflow)), mutant


def test_key_twice_is_seen():
    with pytest.raises(AssertionError, match="twice"):
        yaml.load("name: a\nname: b\n", Loader)
