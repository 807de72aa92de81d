from partwise.templates._functions import FUNCTIONS as FUNCTIONS
from partwise.templates._sets import PRESETS as PRESETS
from partwise.templates.template_list import TemplateIndex as TemplateIndex
from partwise.templates.template_list import Templates as Templates
from partwise.templates.template_list import TokenMatrix as TokenMatrix
