#include "generate/step_decoder.h"

#include <algorithm>
#include <map>
#include <new>

#include "headway/ops.h"

namespace headway::inline v0::internal {

StepDecoder::StepDecoder(const Module& model, DecoderWeights weights, Encode encode, std::int64_t padding)
    : model_(model), weights_(std::move(weights)), encode_(std::move(encode)), padding_(padding) {
  for (const auto& [name, tensor] : model.state_dict()) versions_.emplace_back(tensor, tensor.version());
}

StepDecoder::StepDecoder(const TranslationModel& model)
    : StepDecoder(
          model, decoder_weights(model),
          [model](const Tensor& ids, const std::vector<std::int64_t>& lengths) {
            return model.encode(ids, lengths).output;
          },
          model.options().pad_token_id) {}

StepDecoder::StepDecoder(const TransformerModel& model)
    : StepDecoder(
          model, decoder_weights(model),
          [model](const Tensor& ids, const std::vector<std::int64_t>& lengths) {
            return model.encode({.tokens = ids, .lengths = lengths}).hidden;
          },
          model.options().pad_id.value_or(0)) {
  if (model.options().kind == ModelKind::encoder_decoder) front_ = model.options().encoder.front;
  encode_features_ = [model](const Tensor& features) { return model.encode({.features = features}).hidden; };
}

bool StepDecoder::is_current() const {
  const StateDict state = model_.state_dict();
  std::size_t i = 0;
  for (const auto& [name, tensor] : state) {
    const auto& [made_from, version] = versions_[i++];
    if (tensor.raw_data() != made_from.raw_data() || tensor.version() != version) return false;
  }
  return true;
}

EncodedSources StepDecoder::encode(const SourceList& sources) const {
  const auto count = static_cast<std::int64_t>(sources.size());
  std::size_t longest = 0;
  for (const auto* source : sources) longest = std::max(longest, source->size());
  const Tensor ids =
      Tensor::full({count, static_cast<std::int64_t>(longest)}, static_cast<double>(padding_), DType::int64);
  std::int64_t* row = ids.data<std::int64_t>();
  EncodedSources encoded;
  for (const auto* source : sources) {
    std::copy(source->begin(), source->end(), row);
    row += longest;
    encoded.lengths.push_back(static_cast<std::int64_t>(source->size()));
  }
  encoded.memory = encode_(ids, encoded.lengths);
  return encoded;
}

// Features of one shape go through the encoder together. Shorter sounds are not padded: what the convolutions make of
// padding would reach the last position.
EncodedSources StepDecoder::encode(const FeatureList& features) const {
  std::map<std::int64_t, std::vector<std::int64_t>> groups;  // by the last size, which alone differs
  EncodedSources encoded;
  for (std::size_t i = 0; i < features.size(); ++i) {
    groups[features[i]->size(-1)].push_back(static_cast<std::int64_t>(i));
    encoded.lengths.push_back(front_positions(front_, features[i]->shape()));
  }
  const std::int64_t longest = *std::max_element(encoded.lengths.begin(), encoded.lengths.end());
  for (const auto& [size, members] : groups) {
    std::vector<Tensor> same;
    for (const std::int64_t i : members) same.push_back(features[static_cast<std::size_t>(i)]->to(weights_.dtype()));
    const Tensor memory = encode_features_(stack(same));  // [members, length, width]
    if (members.size() == features.size()) {
      encoded.memory = memory;
      return encoded;
    }
    if (!encoded.memory.defined()) {
      encoded.memory = Tensor::zeros({static_cast<std::int64_t>(features.size()), longest, memory.size(2)},
                                     memory.dtype(), memory.device());
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      encoded.memory.select(0, members[i])
          .slice(0, 0, memory.size(1))
          .copy_from(memory.select(0, static_cast<std::int64_t>(i)));
    }
  }
  return encoded;
}

std::unique_ptr<DecodingBuffers> StepDecoder::acquire_buffers(const BufferSize& size) const {
  {
    const std::lock_guard lock(mutex_);
    for (auto buffers = idle_.begin(); buffers != idle_.end(); ++buffers) {
      const bool holds = (*buffers)->size().holds(size);
      if (!holds && (*buffers)->size().best != size.best) continue;
      std::unique_ptr<DecodingBuffers> found = std::move(*buffers);
      idle_.erase(buffers);
      if (holds) return found;
      break;  // larger ones reuse their memory
    }
  }
  return std::make_unique<DecodingBuffers>(weights_, size);
}

void StepDecoder::release_buffers(std::unique_ptr<DecodingBuffers> buffers) const noexcept {
  constexpr std::size_t kMostIdle = 2;  // one for greedy search and one for beams
  const std::lock_guard lock(mutex_);
  if (idle_.size() == kMostIdle) idle_.erase(idle_.begin());
  try {
    idle_.push_back(std::move(buffers));
  } catch (const std::bad_alloc&) {  // the next batch makes its own
  }
}

}  // namespace headway::inline v0::internal
