#include "generate/step_decoder.h"

#include <algorithm>
#include <new>

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
          model.options().pad_id.value_or(0)) {}

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
