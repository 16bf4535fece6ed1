#include "ops/attention_heads.h"

#include <array>

#include "core/autograd.h"
#include "ops/attention.h"

namespace headway::inline v0::internal {
namespace {

// One gradient per different source; the three heads are views of them.
struct SourceGradients {
  std::array<Tensor, 3> of;  // undefined where an earlier one has the same source

  SourceGradients(const std::array<HeadsIn, 3>& heads, AttentionGradients& gradients) {
    const std::array<Tensor*, 3> targets = {&gradients.query, &gradients.key, &gradients.value};
    std::array<Tensor, 3> whole;
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < i && !whole[i].defined(); ++j) {
        if (is_same_view(heads[i].source, heads[j].source)) whole[i] = whole[j];
      }
      if (!whole[i].defined()) {
        of[i] = whole[i] = Tensor::empty(heads[i].source.shape(), heads[i].source.dtype(), heads[i].source.device());
      }
      *targets[i] = heads[i].view(whole[i]);
    }
  }

  // The same numbers, whatever becomes of their gradients.
  static bool is_same_view(const Tensor& a, const Tensor& b) {
    return a.raw_data() == b.raw_data() && a.shape() == b.shape() && a.strides() == b.strides();
  }
};

}  // namespace

Tensor HeadsIn::view(const Tensor& whole) const {
  const Tensor part = whole.slice(2, first_feature, first_feature + heads * head_dim);
  const Tensor split = part.view({part.size(0), part.size(1), heads, head_dim});
  return length_first ? split.permute({1, 2, 0, 3}) : split.transpose(1, 2);
}

AttentionResult attention_of_heads(const HeadsIn& query, const HeadsIn& key, const HeadsIn& value,
                                   const AttentionOptions& options) {
  const bool recorded = needs_gradient(query.source, key.source, value.source, options.bias, options.sinks);
  AttentionResult result;
  {
    const NoGradGuard guard;  // the views are no operations of their own
    result = attention_forward(query.view(query.source), key.view(key.source), value.view(value.source), options);
  }
  if (!recorded) return result;

  std::array<HeadsIn, 3> heads = {query, key, value};
  std::array<Saved, 3> sources;
  for (std::size_t i = 0; i < 3; ++i) {
    sources[i] = Saved("attention", heads[i].source);
    heads[i].source = Tensor();
  }
  record("attention", {query.source, key.source, value.source, options.bias, options.sinks},
         {result.output, result.logsumexp, result.weights},
         [heads, sources, saved = SavedAttention(options, result)](BackwardCall& call) mutable -> Tensors {
           AttentionBackward arguments = saved.arguments(call);
           std::array<HeadsIn, 3> now = heads;
           for (std::size_t i = 0; i < 3; ++i) now[i].source = sources[i].get();
           arguments.query = now[0].view(now[0].source);
           arguments.key = now[1].view(now[1].source);
           arguments.value = now[2].view(now[2].source);
           arguments.bias_gradient = call.wants(3);
           AttentionGradients gradients;
           SourceGradients d_sources(now, gradients);
           attention_backward_into(arguments, gradients);
           return {std::move(d_sources.of[0]), std::move(d_sources.of[1]), std::move(d_sources.of[2]), gradients.bias,
                   gradients.sinks};
         });
  return result;
}

}  // namespace headway::inline v0::internal
