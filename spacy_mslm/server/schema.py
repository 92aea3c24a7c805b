"""The requests and answers of the API, from which its OpenAPI description is made."""

from pydantic import BaseModel, ConfigDict, Field

from ..util.extensions import CONTEXTS
from .limits import MAX_TEXTS


class Texts(BaseModel):
    """The texts to read."""

    model_config = ConfigDict(extra="forbid")

    texts: list[str] = Field(min_length=1, max_length=MAX_TEXTS, description="One or many texts")


class Text(BaseModel):
    """The text to read."""

    model_config = ConfigDict(extra="forbid")

    text: str


class Pipeline(BaseModel):
    """The pipeline that has answered."""

    name: str
    version: str


class Entity(BaseModel):
    """An entity of a text."""

    text: str
    label: str = Field(description="The entity type")
    start: int = Field(description="Offset of the first character, in Unicode code points")
    end: int = Field(description="Offset after the last character, in Unicode code points")
    confidence: float | None = Field(description="The probability that the entity is right")
    contexts: list[str] | None = Field(
        description=f"Those of {', '.join(CONTEXTS)} that apply; null without an mslm_context pipe"
    )


class Document(BaseModel):
    """The entities of a text, in order."""

    entities: list[Entity]


class Documents(BaseModel):
    """One document for each text."""

    pipeline: Pipeline
    documents: list[Document]


class Mention(BaseModel):
    """A predicted mention in a heat map: the words `start:end`."""

    start: int
    end: int
    label: str
    confidence: float | None


class Reading(BaseModel):
    """What a pipeline predicts for the words of a text."""

    name: str
    confidences: list[float | None] = Field(
        description="The probability of the predicted class of each word; null if it has none"
    )
    mentions: list[Mention]


class Heatmap(BaseModel):
    """The words of a text, and what each pipeline predicts for them."""

    words: list[str]
    readings: list[Reading]


class Health(BaseModel):
    """Whether the server answers requests."""

    status: str


class Refusal(BaseModel):
    """Why a request was refused."""

    detail: str
