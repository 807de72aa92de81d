"""Word alignment: generative models trained on plain sentence pairs, symmetrisation, association of words."""

from partwise.alignment.association import association
from partwise.alignment.generative import GenerativeAligner
from partwise.alignment.matrices import LinkMatrices, LinkPosteriors
from partwise.alignment.symmetrise import symmetrise

__all__ = ["GenerativeAligner", "LinkMatrices", "LinkPosteriors", "association", "symmetrise"]
