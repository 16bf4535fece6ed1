#include <algorithm>

#include "base/check.h"
#include "headway/autograd.h"
#include "headway/multi_head_attention.h"

namespace headway::inline v0 {

using internal::check;

namespace {

// True when two tensors [batch, kv_heads, length, head_dim] can be joined along their lengths.
bool go_together(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.device() == b.device() && a.size(0) == b.size(0) && a.size(1) == b.size(1) &&
         a.size(3) == b.size(3);
}

}  // namespace

std::pair<Tensor, Tensor> KeyValueCache::append(const Tensor& keys, const Tensor& values) {
  constexpr std::int64_t kFirstCapacity = 32;
  check(keys.rank() == 4 && values.rank() == 4 && keys.size(2) == values.size(2), "KeyValueCache: keys are ", keys,
        " and values are ", values, ", expected [batch, kv_heads, length, head_dim]");
  const std::int64_t added = keys.size(2);
  const NoGradGuard guard;
  const auto grow = [&](const Tensor& held, const Tensor& more) {
    if (held.defined() && length_ > 0) {
      check(go_together(held, more), "KeyValueCache: ", more, " on ", more.device(), " does not go with what is held, ",
            held, " on ", held.device());
    }
    const bool fits = held.defined() && go_together(held, more) && held.size(2) >= length_ + added;
    if (fits) return held;
    const std::int64_t capacity = std::max({kFirstCapacity, length_ + added, 2 * length_});
    Tensor larger = Tensor::empty({more.size(0), more.size(1), capacity, more.size(3)}, more.dtype(), more.device());
    if (length_ > 0) larger.slice(2, 0, length_).copy_from(held.slice(2, 0, length_));
    return larger;
  };
  const Tensor new_keys = grow(keys_, keys), new_values = grow(values_, values);
  keys_ = new_keys;
  values_ = new_values;
  keys_.slice(2, length_, length_ + added).copy_from(keys.detach());
  values_.slice(2, length_, length_ + added).copy_from(values.detach());
  length_ += added;
  return {this->keys(), this->values()};
}

Tensor KeyValueCache::keys() const { return keys_.defined() ? keys_.slice(2, 0, length_) : Tensor(); }
Tensor KeyValueCache::values() const { return values_.defined() ? values_.slice(2, 0, length_) : Tensor(); }

void KeyValueCache::reorder(const std::vector<std::int64_t>& entries) {
  if (!keys_.defined()) return;
  for (const std::int64_t entry : entries) {
    check(entry >= 0 && entry < keys_.size(0), "KeyValueCache: entry ", entry, " is asked for, and the batch has ",
          keys_.size(0));
  }
  const auto gather = [&](const Tensor& held) {
    Shape shape = held.shape();
    shape[0] = static_cast<std::int64_t>(entries.size());
    const Tensor chosen = Tensor::empty(shape, held.dtype(), held.device());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      chosen.select(0, static_cast<std::int64_t>(i))
          .slice(1, 0, length_)
          .copy_from(held.select(0, entries[i]).slice(1, 0, length_));
    }
    return chosen;
  };
  keys_ = gather(keys_);
  values_ = gather(values_);
}

}  // namespace headway::inline v0
