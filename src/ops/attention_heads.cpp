#include "ops/attention_heads.h"

#include <array>
#include <utility>

#include "core/autograd.h"
#include "ops/attention.h"
#include "ops/attention_checks.h"

namespace headway::inline v0::internal {
namespace {

// The shape of a projection's gradient, and where it is the same tensor as an earlier one's.
struct SourceForm {
  HeadsIn heads;  // without the source
  Shape shape;
  DType dtype = DType::float32;
  Device device;
  std::size_t first = 0;  // the first of query, key and value that has this source
};

using SourceForms = std::array<SourceForm, 3>;

bool is_same_source(const Tensor& a, const Tensor& b) {
  return a.raw_data() == b.raw_data() && a.shape() == b.shape() && a.strides() == b.strides();
}

SourceForms forms_of(const std::array<const HeadsIn*, 3>& heads) {
  SourceForms forms;
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor& source = heads[i]->source;
    forms[i] = {*heads[i], source.shape(), source.dtype(), source.device(), 0};
    forms[i].heads.source = Tensor();
    while (!is_same_source(source, heads[forms[i].first]->source)) ++forms[i].first;
  }
  return forms;
}

// One gradient per different source, undefined where an earlier one has the same; the three heads become views of them.
std::array<Tensor, 3> make_source_gradients(const SourceForms& forms, AttentionGradients& gradients) {
  const std::array<Tensor*, 3> targets = {&gradients.query, &gradients.key, &gradients.value};
  std::array<Tensor, 3> whole;
  for (std::size_t i = 0; i < 3; ++i) {
    const SourceForm& form = forms[i];
    if (form.first == i) whole[i] = Tensor::empty(form.shape, form.dtype, form.device);
    *targets[i] = form.heads.view(whole[form.first]);
  }
  return whole;
}

}  // namespace

Tensor HeadsIn::view(const Tensor& whole) const {
  const Tensor part = whole.slice(2, first_feature, first_feature + heads * head_dim);
  const Tensor split = part.view({part.size(0), part.size(1), heads, head_dim});
  return length_first ? split.permute({1, 2, 0, 3}) : split.transpose(1, 2);
}

AttentionResult attention_of_heads(const HeadsIn& query, const HeadsIn& key, const HeadsIn& value,
                                   const AttentionOptions& options) {
  const bool recorded = needs_gradient(query.source, key.source, value.source, options.bias, options.sinks);
  const NoGradGuard guard;  // the views are not recorded
  AttentionProblem problem = make_attention_problem(kAttention, query.view(query.source), key.view(key.source),
                                                    value.view(value.source), options);
  AttentionResult result = attention_forward(problem);
  if (recorded) {
    record(kAttention, {query.source, key.source, value.source, options.bias, options.sinks},
           {result.output, result.logsumexp, result.weights},
           [forms = forms_of({&query, &key, &value}),
            saved = SavedAttention(std::move(problem), options, result)](BackwardCall& call) -> Tensors {
             AttentionGradients gradients;
             std::array<Tensor, 3> d_sources = make_source_gradients(forms, gradients);
             saved.backward(call, gradients);
             return {std::move(d_sources[0]), std::move(d_sources[1]), std::move(d_sources[2]), gradients.bias,
                     gradients.sinks};
           });
  }
  return result;
}

}  // namespace headway::inline v0::internal
