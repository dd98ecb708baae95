"""The network of a run as HTML: its layers from the sound to the outputs, with what was observed of them."""

import html
from collections.abc import Iterator, Mapping
from typing import Any

from ds2.bundle import Bundle
from ds2.model.config import ModelConfig
from ds2.model.summary import LayerSummary, summarize

OUTPUTS = ("output", "phone_output", "biphones", "random_walk")  # they stand side by side above the last layer


def network_drawing(bundle: Bundle, observed: Mapping[str, Any]) -> str:
    """Boxes in the order of the layers, outputs side by side: shape, parameters, operations and context of each.

    Args:
        observed: the last observation of the run, an empty one without; with it zeros among a layer's activations,
            and the norms of its matrices and of their gradients.

    Raises:
        AttributeError, IndexError, TypeError, ValueError: the observation is damaged.
    """
    layers = summarize(ModelConfig.of(bundle), len(bundle.tokens))
    stages = [[layer] for layer in layers if layer.name not in OUTPUTS]
    stages.append([layer for layer in layers if layer.name in OUTPUTS])
    most = max(layer.parameters for layer in layers)
    rows = ("".join(_box(layer, most, observed) for layer in stage) for stage in stages)
    return '<div class="network">' + "".join(f'<div class="stage-of-network">{row}</div>' for row in rows) + "</div>"


def _box(layer: LayerSummary, most: int, observed: Mapping[str, Any]) -> str:
    facts = "".join(f"<span>{html.escape(fact)}</span>" for fact in _facts(layer, observed))
    share = layer.parameters / max(1, most)
    return f'<div class="layer"><b>{html.escape(layer.name)}</b>{facts}<i style="width:{share:.1%}"></i></div>'


def _facts(layer: LayerSummary, observed: Mapping[str, Any]) -> Iterator[str]:
    yield f"{layer.shape} per frame"
    yield f"{layer.parameters:,} parameters"
    yield f"{layer.operations / 1e6:,.0f} million operations a second"
    yield f"context: {layer.context}"
    if (zeros := observed.get("sparsity", {}).get(layer.name)) is not None:
        yield f"{zeros:.0%} of the activations are 0"
    if norms := observed.get("norms", {}).get(layer.name):
        # Phones have a loss of their own, which is not that of the observed letters.
        yield f"norm of the weights {norms[0]:.3g}" + (f", of their gradient {norms[1]:.3g}" if norms[1] else "")
