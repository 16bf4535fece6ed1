"""register(): makes attn_implementation="headway" known to transformers."""

from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.configuration_utils import PreTrainedConfig

from headway.transformers._attention import attention_forward
from headway.transformers._mask import attention_mask

NAME = "headway"


def register():
    """Makes attn_implementation="headway" known to transformers; calling it again changes nothing.

    Every model that goes through transformers' attention interface takes it from then on, in from_pretrained(),
    from_config() and set_attn_implementation(). A model with an attention of its own refuses the name, because it would
    not call Headway. Configurations with output_attentions=True, which transformers keeps for "eager", take it too.
    """
    AttentionInterface.register(NAME, attention_forward)
    # Without a mask function of the same name transformers passes no mask at all, and padding would be attended to.
    AttentionMaskInterface.register(NAME, attention_mask)
    _allow_output_attentions()
    _refuse_other_models()


def _allow_output_attentions():
    """Lets a configuration that says "headway" have output_attentions=True."""
    known = PreTrainedConfig.output_attentions
    if getattr(known.fset, "by_headway", False):
        return

    def set_output_attentions(config, value):
        if config._attn_implementation == NAME:
            config._output_attentions = value
        else:
            known.fset(config, value)

    refuses = PreTrainedConfig.validate_output_attentions

    def validate_output_attentions(self):
        if self._attn_implementation != NAME:
            refuses(self)

    set_output_attentions.by_headway = True
    PreTrainedConfig.output_attentions = known.setter(set_output_attentions)
    PreTrainedConfig.validate_output_attentions = validate_output_attentions
    # Each configuration class keeps a list of its validators, made when the class was.
    for config_class in _subclasses(PreTrainedConfig):
        validators = config_class.__dict__.get("__class_validators__", [])
        validators[:] = [validate_output_attentions if entry is refuses else entry for entry in validators]


def _refuse_other_models():
    """Makes "headway" an error for a model that has an attention of its own, which would run instead, in silence."""
    choose = PreTrainedModel.get_correct_attn_implementation
    if getattr(choose, "by_headway", False):
        return

    def get_correct_attn_implementation(self, requested_attention, is_init_check=False):
        if requested_attention == NAME and not self._can_set_attn_implementation():
            raise ValueError(
                f'attn_implementation is "{NAME}" for {type(self).__name__}, expected a model that uses transformers\' '
                "attention interface; this one computes attention by itself"
            )
        return choose(self, requested_attention, is_init_check)

    get_correct_attn_implementation.by_headway = True
    PreTrainedModel.get_correct_attn_implementation = get_correct_attn_implementation


def _subclasses(parent):
    """The class and all that derive from it, so far."""
    yield parent
    for child in parent.__subclasses__():
        yield from _subclasses(child)
