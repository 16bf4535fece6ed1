#include "support/sequences.h"

namespace headway_test {
namespace {

using headway::AttentionBackward;
using headway::AttentionOptions;
using headway::Tensor;
using std::int64_t;

// One of some lengths, or the only one.
template <typename Lengths>
int64_t entry(const Lengths& lengths, int64_t index) {
  const Tensor& tensor = lengths.tensor();
  return static_cast<int64_t>(tensor.to_vector()[tensor.element_count() == 1 ? 0 : index]);
}

}  // namespace

std::vector<Sequence> sequences_of(const AttentionBackward& p) {
  const AttentionOptions& options = p.options;
  const bool packed = options.cu_query_lengths.defined();
  const int64_t count = packed ? options.cu_query_lengths.tensor().element_count() - 1 : p.query.size(0);
  std::vector<Sequence> sequences;
  for (int64_t s = 0; s < count; ++s) {
    Sequence sequence = {s, s, 0, p.query.size(2), 0, p.key.size(2), 0, 0};
    if (packed) {
      sequence.batch = 0;
      sequence.query_begin = entry(options.cu_query_lengths, s);
      sequence.query_count = entry(options.cu_query_lengths, s + 1) - sequence.query_begin;
      sequence.key_begin = entry(options.cu_key_lengths, s);
      sequence.key_count = entry(options.cu_key_lengths, s + 1) - sequence.key_begin;
    }
    sequence.key_length = options.key_lengths.defined() ? entry(options.key_lengths, s) : sequence.key_count;
    if (options.query_offset.defined()) {
      sequence.offset = entry(options.query_offset, s);
    } else if (options.causal == headway::Causal::bottom_right) {
      sequence.offset = sequence.key_length - sequence.query_count;
    }
    sequences.push_back(sequence);
  }
  return sequences;
}

}  // namespace headway_test
