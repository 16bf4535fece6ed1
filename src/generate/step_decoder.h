// A decoder prepared for search: packed weights, and buffers that are reused from batch to batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "generate/decoder_weights.h"
#include "generate/decoding_buffers.h"
#include "headway/transformer_model.h"
#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// Token ids of sources, each without padding and not empty.
using SourceList = std::vector<const std::vector<std::int64_t>*>;
// Pictures [channels, height, width] or sounds [bins, frames], which differ in their frames.
using FeatureList = std::vector<const Tensor*>;

// The sources of one batch, padded to the longest, through the encoder.
struct EncodedSources {
  std::vector<std::int64_t> lengths;  // (sources)
  Tensor memory;                      // [sources, longest, width]
};

// The state that all searches with one model share. It must not be used once the model has changed: see is_current().
class StepDecoder {
 public:
  explicit StepDecoder(const TranslationModel& model);
  explicit StepDecoder(const TransformerModel& model);

  const Module& model() const { return model_; }
  const DecoderWeights& weights() const { return weights_; }
  // True while the model's parameters are unchanged since construction.
  bool is_current() const;

  EncodedSources encode(const SourceList& sources) const;
  // The same of features, for a model that reads them: each has the memory that it has alone.
  EncodedSources encode(const FeatureList& features) const;
  // What the encoder reads; FrontKind::tokens where it reads text, or where there is none.
  const FrontOptions& front() const { return front_; }

  // Buffers of at least `size`, for one batch: those of an earlier batch where they are large enough, else new ones.
  std::unique_ptr<DecodingBuffers> acquire_buffers(const BufferSize& size) const;
  void release_buffers(std::unique_ptr<DecodingBuffers> buffers) const noexcept;

 private:
  // (ids [sources, longest], lengths) -> [sources, longest, width]
  using Encode = std::function<Tensor(const Tensor& ids, const std::vector<std::int64_t>& lengths)>;
  // Features [sources, ...] of one shape -> [sources, length, width]
  using EncodeFeatures = std::function<Tensor(const Tensor& features)>;
  StepDecoder(const Module& model, DecoderWeights weights, Encode encode, std::int64_t padding);

  Module model_;
  std::vector<std::pair<Tensor, std::uint64_t>> versions_;  // the parameters and their versions at construction
  DecoderWeights weights_;
  Encode encode_;
  EncodeFeatures encode_features_ = {};
  FrontOptions front_ = {};
  std::int64_t padding_;  // the id that fills shorter sources
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<DecodingBuffers>> idle_;  // wait for the next batch
};

}  // namespace headway::inline v0::internal
