"""Label policies (Bell-LaPadula): no reading up, no writing down."""

from pdp.labels.difference import label_effects, labels_restructured
from pdp.labels.labels import Access, InvalidLabel, Labelling, LabelPolicy, LabelSource
from pdp.labels.reader import read_label_policy

__all__ = [
    "Access", "InvalidLabel", "LabelPolicy", "LabelSource", "Labelling", "label_effects",
    "labels_restructured", "read_label_policy",
]  # fmt: skip
