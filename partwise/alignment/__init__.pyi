from partwise.alignment.aligner import WordAligner as WordAligner
from partwise.alignment.associations import association as association
from partwise.alignment.generative import GenerativeAligner as GenerativeAligner
from partwise.alignment.matrices import LinkMatrices as LinkMatrices
from partwise.alignment.matrices import LinkPosteriors as LinkPosteriors
from partwise.alignment.symmetrisation import symmetrise as symmetrise
