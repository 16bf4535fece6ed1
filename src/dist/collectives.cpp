// The operations of a communicator, each made of messages.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "dist/group.h"
#include "headway/autograd.h"
#include "headway/error.h"

namespace headway::inline v0 {
namespace {

using internal::check;
using internal::MessageList;
using internal::TransferState;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::shared_ptr<TransferState> new_transfer(const std::shared_ptr<internal::RankGroup>& group) {
  auto state = std::make_shared<TransferState>();
  state->group = group;
  return state;
}

void start(TransferState& state) { state.messages = state.list.start(*state.group); }

void check_root(const char* call, int root, int size) {
  check(root >= 0 && root < size, call, ": root is ", root, ", expected a rank of 0 to ", size - 1);
}

void check_defined(const char* call, const char* name, const Tensor& values) {
  check(values.defined(), call, ": ", name, " is undefined");
}

// The rows of each rank: as given, or as even as they go.
std::vector<std::int64_t> checked_counts(const char* call, const std::vector<std::int64_t>& counts, std::int64_t rows,
                                         int size) {
  if (counts.empty()) return Communicator::even_counts(rows, size);
  check(std::ssize(counts) == size, call, ": counts has ", counts.size(), " entries, expected one for each of ", size,
        " ranks");
  for (const std::int64_t count : counts) check(count >= 0, call, ": counts holds ", count, ", expected 0 or more");
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  check(sum == rows, call, ": counts add up to ", sum, ", expected the ", rows, " rows of the tensor");
  return counts;
}

// Rows of the first dimension.
Tensor rows(const Tensor& values, std::int64_t begin, std::int64_t count) {
  return values.detach().slice(0, begin, begin + count);
}

Shape with_rows(const Tensor& like, std::int64_t count) {
  Shape shape = like.shape();
  shape[0] = count;
  return shape;
}

}  // namespace

std::vector<std::int64_t> Communicator::even_counts(std::int64_t rows, int ranks) {
  check(ranks >= 1, "even_counts: ranks is ", ranks, ", expected 1 or more");
  check(rows >= 0, "even_counts: rows is ", rows, ", expected 0 or more");
  std::vector<std::int64_t> counts(at(ranks), rows / ranks);
  for (std::int64_t rank = 0; rank < rows % ranks; ++rank) ++counts[static_cast<std::size_t>(rank)];
  return counts;
}

// ---- messages ----

Transfer Communicator::start_messages(const std::vector<Sent>& sent, const std::vector<Received>& received) const {
  const auto state = new_transfer(group_);
  std::vector<Tensor> own;
  for (const Sent& message : sent) {
    check(message.to >= 0 && message.to < size(), "start_messages: to is ", message.to, ", expected a rank of 0 to ",
          size() - 1);
    if (message.to == rank()) {
      own.push_back(message.values);
    } else {
      state->list.send(message.values, message.to);
    }
  }
  std::size_t next = 0;
  for (const Received& message : received) {
    check(message.from >= 0 && message.from < size(), "start_messages: from is ", message.from,
          ", expected a rank of 0 to ", size() - 1);
    if (message.from == rank()) {
      check(next < own.size(), "start_messages: this rank expects more of itself than it sends");
      const NoGradGuard guard;
      message.values.detach().copy_from(own[next++].detach());
    } else {
      state->list.receive(message.values, message.from);
    }
  }
  check(next == own.size(), "start_messages: this rank sends more to itself than it expects");
  if (!group_) return {};
  start(*state);
  return Transfer(state);
}

void Communicator::exchange(const Tensor& sent, int to, const Tensor& received, int from) const {
  start_messages({{sent, to}}, {{received, from}}).wait();
}

// In round k every rank has heard of the 2^k ranks before it.
void Communicator::barrier() const {
  const Tensor sent = Tensor::zeros({1}, DType::boolean), received = Tensor::zeros({1}, DType::boolean);
  for (int distance = 1; distance < size(); distance *= 2) {
    exchange(sent, (rank() + distance) % size(), received, (rank() + size() - distance % size()) % size());
  }
}

// ---- broadcast ----

Transfer Communicator::start_broadcast(const Tensor& values, int root) const {
  check_defined("broadcast", "values", values);
  check_root("broadcast", root, size());
  if (!group_) return {};
  std::vector<Sent> sent;
  if (rank() == root) {
    for (int to = 0; to < size(); ++to) {
      if (to != root) sent.push_back({values, to});
    }
    return start_messages(sent, {});
  }
  return start_messages({}, {{values, root}});
}

// By a binomial tree: in round k the first 2^k ranks, counted from the root, send to the next 2^k.
void Communicator::broadcast(const Tensor& values, int root) const {
  check_defined("broadcast", "values", values);
  check_root("broadcast", root, size());
  const int place = (rank() - root + size()) % size();
  for (int known = 1; known < size(); known *= 2) {
    if (place < known && place + known < size()) {
      start_messages({{values, (place + known + root) % size()}}, {}).wait();
    } else if (place >= known && place < 2 * known) {
      start_messages({}, {{values, (place - known + root) % size()}}).wait();
    }
  }
}

// ---- gather ----

Transfer Communicator::start_all_gather(const Tensor& share, const Tensor& result,
                                        const std::vector<std::int64_t>& counts) const {
  check_defined("all_gather", "share", share);
  check_defined("all_gather", "result", result);
  check(share.rank() >= 1 && result.rank() >= 1, "all_gather: share is ", share, ", expected at least one dimension");
  check(share.dtype() == result.dtype(), "all_gather: result is ", result, ", expected the share's dtype, ",
        share.dtype());
  std::vector<std::int64_t> shares = counts;
  if (shares.empty()) shares.assign(at(size()), share.size(0));
  shares = checked_counts("all_gather", shares, result.size(0), size());
  check(share.size(0) == shares[at(rank())], "all_gather: share is ", share, ", expected ", shares[at(rank())],
        " rows on rank ", rank());
  check(result.shape() == with_rows(share, result.size(0)), "all_gather: result is ", result,
        ", expected the share's shape but for the rows, ", share);
  std::vector<Sent> sent;
  std::vector<Received> received;
  std::int64_t begin = 0;
  for (int other = 0; other < size(); begin += shares[at(other)], ++other) {
    sent.push_back({share, other});
    received.push_back({rows(result, begin, shares[at(other)]), other});
  }
  return start_messages(sent, received);
}

Tensor Communicator::all_gather(const Tensor& share, const std::vector<std::int64_t>& counts) const {
  check_defined("all_gather", "share", share);
  check(share.rank() >= 1, "all_gather: share is ", share, ", expected at least one dimension");
  const std::int64_t all =
      counts.empty() ? share.size(0) * size() : std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const Tensor result = Tensor::empty(with_rows(share, all), share.dtype(), share.device());
  start_all_gather(share, result, counts).wait();
  return result;
}

// Characters travel four to an element, since copies of other element types of one byte change them.
std::vector<std::string> Communicator::all_gather(const std::string& text) const {
  if (!group_) return {text};
  const auto words_of = [](std::int64_t characters) { return (characters + 3) / 4; };
  const Tensor lengths = all_gather(Tensor::from({static_cast<std::int64_t>(text.size())}, {1}));
  std::vector<std::int64_t> counts(at(size()));
  std::transform(lengths.data<std::int64_t>(), lengths.data<std::int64_t>() + size(), counts.begin(), words_of);
  const Tensor own = Tensor::zeros({counts[at(rank())]}, DType::int32);
  if (!text.empty()) std::memcpy(own.raw_data(), text.data(), text.size());
  const Tensor all = all_gather(own, counts);
  std::vector<std::string> texts;
  const char* next = static_cast<const char*>(all.raw_data());
  for (int other = 0; other < size(); next += 4 * counts[at(other)], ++other) {
    texts.emplace_back(next, static_cast<std::size_t>(lengths.data<std::int64_t>()[other]));
  }
  return texts;
}

void Communicator::check_same(const std::string& what, const std::string& text) const {
  if (!group_) return;
  const std::vector<std::string> texts = all_gather(text);
  for (int other = 1; other < size(); ++other) {
    if (texts[at(other)] == texts[0]) continue;
    try {
      barrier();  // all have all texts, and throw this error instead of one that says that another rank has failed
    } catch (const Error&) {
    }
    internal::fail(what, ": rank ", other, " has ", texts[at(other)], ", rank 0 ", texts[0]);
  }
}

// ---- all to all ----

Transfer Communicator::start_all_to_all(const std::vector<Tensor>& parts, const std::vector<Tensor>& received) const {
  check(std::ssize(parts) == size() && std::ssize(received) == size(), "all_to_all: ", parts.size(), " parts and ",
        received.size(), " tensors to receive into, expected one of each for each of ", size(), " ranks");
  std::vector<Sent> sent;
  std::vector<Received> expected;
  for (int other = 0; other < size(); ++other) {
    const Tensor &to = parts[at(other)], &from = received[at(other)];
    const bool is_own = other == rank();
    if (to.defined() && to.element_count() > 0) sent.push_back({to, other});
    if (from.defined() && from.element_count() > 0) expected.push_back({from, other});
    if (is_own && to.defined() && from.defined()) {
      check(to.shape() == from.shape(), "all_to_all: this rank sends itself ", to, " and expects ", from);
    }
  }
  return start_messages(sent, expected);
}

void Communicator::all_to_all(const std::vector<Tensor>& parts, const std::vector<Tensor>& received) const {
  start_all_to_all(parts, received).wait();
}

// ---- sums ----

Transfer Communicator::start_reduce_scatter(const Tensor& values, const Tensor& result,
                                            const std::vector<std::int64_t>& counts) const {
  check_defined("reduce_scatter", "values", values);
  check_defined("reduce_scatter", "result", result);
  check(values.rank() >= 1, "reduce_scatter: values is ", values, ", expected at least one dimension");
  const std::vector<std::int64_t> shares = checked_counts("reduce_scatter", counts, values.size(0), size());
  const std::int64_t own_rows = shares[at(rank())];
  check(result.dtype() == values.dtype() && result.shape() == with_rows(values, own_rows), "reduce_scatter: result is ",
        result, ", expected ", own_rows, " rows of ", values);
  std::vector<Sent> sent;
  std::vector<Received> received;
  std::vector<Tensor> terms;
  std::int64_t begin = 0;
  for (int other = 0; other < size(); begin += shares[at(other)], ++other) {
    if (other == rank()) {
      terms.push_back(rows(values, begin, own_rows));
      continue;
    }
    sent.push_back({rows(values, begin, shares[at(other)]), other});
    terms.push_back(Tensor::empty(result.shape(), values.dtype(), values.device()));
    received.push_back({terms.back(), other});
  }
  Transfer transfer = start_messages(sent, received);
  auto finish = [terms = std::move(terms), result] { internal::reduce_terms(terms, Reduce::sum, result); };
  if (!transfer.state_) {
    finish();
  } else {
    transfer.state_->finish = std::move(finish);
  }
  return transfer;
}

Tensor Communicator::reduce_scatter(const Tensor& values, const std::vector<std::int64_t>& counts) const {
  check_defined("reduce_scatter", "values", values);
  check(values.rank() >= 1, "reduce_scatter: values is ", values, ", expected at least one dimension");
  const std::vector<std::int64_t> shares = checked_counts("reduce_scatter", counts, values.size(0), size());
  const Tensor result = Tensor::empty(with_rows(values, shares[at(rank())]), values.dtype(), values.device());
  start_reduce_scatter(values, result, counts).wait();
  return result;
}

// Short tensors go to every rank whole. Of long ones each rank reduces its share and spreads it, which sends 2 (n - 1)
// / n of the bytes; the second half begins when the first is waited for.
Transfer Communicator::start_all_reduce(const Tensor& values, Reduce how) const {
  check_defined("all_reduce", "values", values);
  if (!group_) return {};
  constexpr std::int64_t kShort = 4096;  // elements
  const NoGradGuard guard;
  const Tensor flat = values.detach().reshape({-1});
  const std::int64_t count = flat.element_count();
  const bool is_short = count <= kShort;
  const std::vector<std::int64_t> shares =
      is_short ? std::vector<std::int64_t>(at(size()), count) : even_counts(count, size());
  std::vector<Sent> sent;
  std::vector<Received> received;
  std::vector<Tensor> terms;
  std::int64_t begin = 0, own_begin = 0;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) {
      own_begin = begin;
      terms.emplace_back();
    } else {
      sent.push_back({rows(flat, begin, shares[at(other)]), other});
      terms.push_back(Tensor::empty({shares[at(rank())]}, flat.dtype(), flat.device()));
      received.push_back({terms.back(), other});
    }
    if (!is_short) begin += shares[at(other)];
  }
  const Tensor own = rows(flat, own_begin, shares[at(rank())]);
  terms[at(rank())] = own;
  Transfer transfer = start_messages(sent, received);
  transfer.state_->finish = [*this, terms, own, flat, values, shares, how, is_short] {
    internal::reduce_terms(terms, how, own);
    if (!is_short) start_all_gather(own.clone(), flat, shares).wait();
    const NoGradGuard inner;
    if (flat.raw_data() != values.raw_data()) values.detach().copy_from(flat.view(values.shape()));
  };
  return transfer;
}

void Communicator::all_reduce(const Tensor& values, Reduce how) const { start_all_reduce(values, how).wait(); }

double Communicator::all_reduce(double value, Reduce how) const {
  const Tensor one = Tensor::from({value}, {1});
  all_reduce(one, how);
  return one.item();
}

}  // namespace headway::inline v0
