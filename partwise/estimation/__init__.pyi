from partwise.estimation.base import StoredModel as StoredModel
from partwise.estimation.base import load_model as load_model
from partwise.estimation.base import thread_count as thread_count
from partwise.estimation.estimator import Estimator as Estimator
from partwise.estimation.estimator import check_is_fitted as check_is_fitted
from partwise.estimation.learned import LearnedEstimator as LearnedEstimator
from partwise.estimation.learned import cost_for as cost_for
from partwise.estimation.structured import StructuredClassifier as StructuredClassifier
