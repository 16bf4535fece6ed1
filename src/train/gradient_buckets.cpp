// Buckets of gradients in transit.
#include "train/gradient_buckets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "headway/autograd.h"
#include "train/optimizer_shares.h"

namespace headway::inline v0::internal {

GradientBuckets::GradientBuckets(Communicator ranks, const std::vector<NamedTensor>& parameters,
                                 const std::vector<std::size_t>& order, std::int64_t bytes)
    : ranks_(std::move(ranks)), place_of_(parameters.size()) {
  for (const NamedTensor& parameter : parameters) parameters_.push_back(parameter.tensor);
  std::map<DType, Bucket> open;
  for (const std::size_t number : order) {
    const Tensor& parameter = parameters_[number];
    Bucket& bucket = open[parameter.dtype()];
    bucket.parts.push_back({.parameter = number, .begin = bucket.count, .count = parameter.element_count()});
    bucket.count += parameter.element_count();
    if (bucket.count * static_cast<std::int64_t>(item_size(parameter.dtype())) >= bytes) {
      close(bucket);
      open.erase(parameter.dtype());
    }
  }
  for (auto& [dtype, bucket] : open) close(bucket);
}

void GradientBuckets::close(Bucket& bucket) {
  const auto rank = static_cast<std::size_t>(ranks_.rank());
  bucket.shares = Communicator::even_counts(bucket.count, ranks_.size());
  for (std::size_t other = 0; other < rank; ++other) bucket.own_begin += bucket.shares[other];
  bucket.own_count = bucket.shares[rank];
  for (std::size_t i = 0; i < bucket.parts.size(); ++i) place_of_[bucket.parts[i].parameter] = {buckets_.size(), i};
  buckets_.push_back(std::move(bucket));
}

ElementRange GradientBuckets::common(const Bucket& bucket, const Bucket::Part& part, std::int64_t begin,
                                     std::int64_t count) {
  const std::int64_t first = std::clamp(begin, part.begin, part.begin + part.count);
  const std::int64_t last = std::clamp(std::min(begin + count, bucket.count), part.begin, part.begin + part.count);
  return {.begin = first, .count = last - first};
}

std::vector<std::vector<ElementRange>> GradientBuckets::ranges() const {
  std::vector<std::vector<ElementRange>> all(parameters_.size());
  for (const Bucket& bucket : buckets_) {
    std::int64_t begin = 0;
    for (const std::int64_t count : bucket.shares) {
      for (const Bucket::Part& part : bucket.parts) {
        const ElementRange shared = common(bucket, part, begin, count);
        all[part.parameter].push_back({.begin = shared.begin - part.begin, .count = shared.count});
      }
      begin += count;
    }
  }
  return all;
}

void GradientBuckets::begin() {
  started_ = 0;
  had_gradient_.assign(parameters_.size(), 0);
  is_complete_.assign(parameters_.size(), 0);
  own_sums_.assign(parameters_.size(), Tensor());
  transits_.clear();
  for (const Bucket& bucket : buckets_) transits_.emplace_back().missing = bucket.parts.size();
}

void GradientBuckets::complete(std::size_t parameter) {
  if (is_complete_[parameter]) return;
  is_complete_[parameter] = 1;
  const NoGradGuard guard;
  const auto [number, place] = place_of_[parameter];
  const Bucket& bucket = buckets_[number];
  const Bucket::Part& part = bucket.parts[place];
  const Tensor& tensor = parameters_[parameter];
  Transit& transit = transits_[number];
  if (!transit.values.defined()) transit.values = Tensor::empty({bucket.count}, tensor.dtype(), tensor.device());
  Tensor there = transit.values.slice(0, part.begin, part.begin + part.count);
  const Tensor gradient = tensor.grad();
  if (gradient.defined()) {
    there.copy_from(elements(gradient));
    had_gradient_[parameter] = 1;
    tensor.set_grad(Tensor());
  } else {
    there.fill(0.0);
  }
  --transit.missing;
  start_complete_ones();
}

void GradientBuckets::start_complete_ones() {
  // Engines without a thread of their own go on with what they send when they are asked.
  for (std::size_t i = 0; i < started_; ++i) {
    if (transits_[i].values.defined() && transits_[i].transfer.done()) settle(i);
  }
  for (; started_ < buckets_.size() && transits_[started_].missing == 0; ++started_) {
    Transit& transit = transits_[started_];
    const Bucket& bucket = buckets_[started_];
    transit.own = Tensor::empty({bucket.own_count}, transit.values.dtype(), transit.values.device());
    transit.transfer = ranks_.start_reduce_scatter(transit.values, transit.own, bucket.shares);
  }
}

void GradientBuckets::settle(std::size_t number) {
  const Bucket& bucket = buckets_[number];
  Transit& transit = transits_[number];
  transit.transfer.wait();
  transit.transfer = Transfer();  // with it go the terms of the sum
  transit.values = Tensor();
  for (const Bucket::Part& part : bucket.parts) {
    const ElementRange own = common(bucket, part, bucket.own_begin, bucket.own_count);
    const std::int64_t begin = std::clamp(own.begin - bucket.own_begin, std::int64_t{0}, bucket.own_count);
    own_sums_[part.parameter] = transit.own.slice(0, begin, begin + own.count);
  }
}

void GradientBuckets::finish() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) complete(i);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (transits_[i].values.defined()) settle(i);
  }
}

void GradientBuckets::drop_sums() {
  own_sums_.assign(parameters_.size(), Tensor());
  transits_.clear();
}

void GradientBuckets::gather_parameters() {
  const NoGradGuard guard;
  drop_sums();
  std::vector<Transit> transits;
  for (const Bucket& bucket : buckets_) {
    const Tensor& like = parameters_[bucket.parts.front().parameter];
    Transit& transit = transits.emplace_back();
    transit.values = Tensor::empty({bucket.count}, like.dtype(), like.device());
    transit.own = Tensor::empty({bucket.own_count}, like.dtype(), like.device());
    for (const Bucket::Part& part : bucket.parts) {
      const ElementRange own = common(bucket, part, bucket.own_begin, bucket.own_count);
      if (own.count == 0) continue;
      const ElementRange of_parameter{.begin = own.begin - part.begin, .count = own.count};
      const std::int64_t begin = own.begin - bucket.own_begin;
      transit.own.slice(0, begin, begin + own.count).copy_from(elements(parameters_[part.parameter], of_parameter));
    }
    transit.transfer = ranks_.start_all_gather(transit.own, transit.values, bucket.shares);
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    transits[i].transfer.wait();
    for (const Bucket::Part& part : buckets_[i].parts) {
      Tensor parameter = elements(parameters_[part.parameter]);  // shares its memory, and its version
      parameter.copy_from(transits[i].values.slice(0, part.begin, part.begin + part.count));
    }
    transits[i] = {};
  }
}

}  // namespace headway::inline v0::internal
