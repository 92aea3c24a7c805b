"""What spaCy expects of a pipe that other components listen to, as `tok2vec` and `transformer`."""

from typing import Any

from thinc.api import Model

from ..model.architecture import MSLMModel, shim_of
from ..model.listener import Listener

# Listeners of spaCy and spacy-transformers, which read other pipes.
FOREIGN = ("tok2vec-listener", "transformer-listener")


class Listened:
    """Keeps the listeners of a pipe. spaCy links them when it puts a pipeline together."""

    name: str
    model: MSLMModel
    listener_map: dict[str, list[Listener]]

    @property
    def listeners(self) -> list[Listener]:
        """The listeners that read this pipe.

        A listener with upstream "*" reads only the nearest of several `mslm` pipes.
        """
        found = (
            own for component in self.listening_components for own in self.listener_map[component]
        )
        return [listener for listener in found if listener.linked_name == self.name]

    @property
    def listening_components(self) -> list[str]:
        """The names of the components that listen."""
        return list(self.listener_map)

    def add_listener(self, listener: Listener, component_name: str) -> None:
        """Add a listener of a component."""
        known = self.listener_map.setdefault(component_name, [])
        if listener not in known:
            known.append(listener)
        listener.linked_name = self.name

    def remove_listener(self, listener: Listener, component_name: str) -> bool:
        """Remove a listener of a component. Returns whether it was there."""
        known = self.listener_map.get(component_name, [])
        if listener not in known:
            return False
        known.remove(listener)
        if not known:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """Add the listeners in the model of a component that name this pipe.

        Raises:
            ValueError: If a listener of another package names this pipe.
        """
        model = getattr(component, "model", None)
        for node in model.walk() if isinstance(model, Model) else ():
            if isinstance(node, Listener) and node.upstream_name in ("*", self.name):
                self.add_listener(node, component.name)
            elif node.name in FOREIGN and getattr(node, "upstream_name", None) == self.name:
                raise ValueError(
                    f"The component {component.name!r} listens to {self.name!r} with a "
                    f"{node.name}, which cannot read an mslm pipe. Set @architectures of its "
                    'tok2vec to "spacy_mslm.Listener.v1".'
                )
        self.tell_width()

    def tell_width(self) -> None:
        """Tell the listeners the size of token vectors, if the encoder is loaded."""
        shim = shim_of(self.model)
        for listener in self.listeners if shim.is_loaded else ():
            # A listener with upstream "*" may have been told that of another pipe.
            listener.set_dim("nO", shim.network.hidden_size, force=True)
