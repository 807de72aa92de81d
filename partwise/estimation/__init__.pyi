from partwise.estimation.base import StoredModel as StoredModel
from partwise.estimation.base import load_model as load_model
from partwise.estimation.conduct import Estimator as Estimator
from partwise.estimation.structured import StructuredClassifier as StructuredClassifier
