"""partwise: structured prediction, part by part.

Any structure × any loss × any learner, at native speed, with a certificate. Names are imported when first used, so
that ``import partwise`` is quick; ``__init__.pyi`` lists them.
"""

from partwise._lazy import attach
from partwise._version import __version__ as __version__

__getattr__, __dir__, __all__ = attach(__name__, __file__)
