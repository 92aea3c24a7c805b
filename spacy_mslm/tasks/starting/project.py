"""`project.yml` of a new project, from the template `data/starter.yml`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

TEMPLATE = files("spacy_mslm") / "data" / "starter.yml"
ADAPTED = "training/adapted"


@dataclass(frozen=True)
class Project:
    """What differs between projects.

    Attributes:
        name: The name of the project and of its package.
        config: The name of the config.
        encoder: Hub name, or absolute path.
        lang: The language of the pipeline.
        biomedical: Whether the tokenizer has the biomedical rules.
        epochs: The number of passes over the training set.
        learn_rate: That of the encoder.
        head_learn_rate: That of the heads.
        text: Text for adaptation, an absolute path; None for no adaptation.
        adaptation_steps: The updates of adaptation.
        evaluated: The split that is evaluated: test, or dev if there is no test set.
        description: What the corpus is.
    """

    name: str
    config: str
    encoder: str
    lang: str
    biomedical: bool
    epochs: float
    learn_rate: float
    head_learn_rate: float
    text: str | None
    adaptation_steps: int
    evaluated: str
    description: str


def render_project(project: Project) -> str:
    """Return the file."""
    return _fill(
        TEMPLATE.read_text(encoding="utf8"),
        {
            # A JSON string is a YAML string.
            "TITLE": json.dumps(project.name, ensure_ascii=False),
            "DESCRIPTION": json.dumps(project.description, ensure_ascii=False),
            "ENCODER": json.dumps(project.encoder, ensure_ascii=False),
            "EPOCHS": f"{project.epochs:g}",
            "LEARN_RATE": f"{project.learn_rate:f}".rstrip("0"),
            "HEAD_LEARN_RATE": f"{project.head_learn_rate:f}".rstrip("0"),
            "TEXT_VARS": _text_vars(project),
            "NAME": json.dumps(project.name, ensure_ascii=False),
            "LANG": project.lang,
            "CONFIG": project.config,
            "EVALUATED": project.evaluated,
            "TRAIN_SCRIPT": _train_script(project),
        },
    )


def _fill(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"<{name}>", value)
    return template


def _text_vars(project: Project) -> str:
    if project.text is None:
        return ""
    return (
        "  # Text without labels, for adaptation, and the number of updates on it.\n"
        f"  text: {json.dumps(project.text, ensure_ascii=False)}\n"
        f"  adaptation_steps: {project.adaptation_steps}\n"
    )


def _train_script(project: Project) -> str:
    lines = [
        f"python -m spacy train configs/{project.config}.cfg --output training",
        "--paths.train corpus/train.spacy --paths.dev corpus/dev.spacy",
        '--vars.encoder "${vars.encoder}" --training.max_steps.epochs ${vars.epochs}',
        "--training.optimizer.learn_rate.rate ${vars.learn_rate}",
        "--training.optimizer.head_learn_rate.rate ${vars.head_learn_rate}",
        "--system.seed ${vars.seed} --gpu-id ${vars.gpu_id}",
    ]
    if project.lang != "en":
        lines.append(f"--nlp.lang {project.lang}")
    if project.biomedical:
        lines.append("--nlp.tokenizer.biomedical true")
    commands = []
    if project.text is not None:
        lines += [
            f'--paths.text "${{vars.text}}" --paths.adapted {ADAPTED}',
            "--initialize.components.mslm.adaptation.steps ${vars.adaptation_steps}",
        ]
        # An encoder that was adapted with other settings would be refused.
        code = f"import shutil; shutil.rmtree('{ADAPTED}', ignore_errors=True)"
        commands.append(f'      - "python -c \\"{code}\\""')
    commands.append("\n".join(["      - >-", *(f"        {line}" for line in lines)]))
    return "\n".join(commands)
